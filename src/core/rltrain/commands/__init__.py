"""The commands, a module each: `split`, `add_arguments`, `run` and `EPILOG`."""

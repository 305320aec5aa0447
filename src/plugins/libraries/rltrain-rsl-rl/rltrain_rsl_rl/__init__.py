"""The rsl_rl library for rltrain."""

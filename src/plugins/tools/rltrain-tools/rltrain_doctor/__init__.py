"""The command `rltrain doctor`: one module for each section of what it prints."""

"""A command that evaluates runs, for rltrain."""

"""The checks of `rltrain doctor`: one module a section of its page."""

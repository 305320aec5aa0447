"""The checks of `rltrain doctor`, with one module for each section of its report."""

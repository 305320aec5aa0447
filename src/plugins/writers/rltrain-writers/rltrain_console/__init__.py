"""The live view of a run, on a terminal."""

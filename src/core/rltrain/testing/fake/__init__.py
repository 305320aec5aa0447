"""N ranks in one process: the fake process group."""

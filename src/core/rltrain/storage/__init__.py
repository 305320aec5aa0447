"""What is written: the run folder, checkpoints, the manifest."""

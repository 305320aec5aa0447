"""What a run writes: the run folder, checkpoints, the manifest."""

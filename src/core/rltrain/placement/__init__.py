"""Where a run runs: what has started this process, its backend, devices, launcher and nodes."""

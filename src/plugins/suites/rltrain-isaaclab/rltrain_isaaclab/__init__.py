"""Isaac Lab's tasks for rltrain."""

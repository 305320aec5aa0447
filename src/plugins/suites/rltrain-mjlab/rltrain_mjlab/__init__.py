"""mjlab's tasks for rltrain."""

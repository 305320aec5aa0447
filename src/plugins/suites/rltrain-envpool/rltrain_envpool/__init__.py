"""EnvPool's tasks for rltrain."""

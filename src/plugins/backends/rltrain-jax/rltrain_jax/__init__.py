"""jax backends, gradient sync and the launcher `processes` for rltrain."""

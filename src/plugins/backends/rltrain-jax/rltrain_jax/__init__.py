"""jax backends and gradient sync for rltrain."""

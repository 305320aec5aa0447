"""PPO in plain jax, for rltrain."""

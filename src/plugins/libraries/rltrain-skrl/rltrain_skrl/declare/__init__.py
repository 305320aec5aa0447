"""What the plan knows of skrl before skrl is imported. Nothing here imports torch, jax or skrl."""

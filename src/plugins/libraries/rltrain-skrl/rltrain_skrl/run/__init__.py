"""skrl's parts on the session; `torch` and `jax` have what differs by framework."""

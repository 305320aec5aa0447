"""The skrl library for rltrain."""

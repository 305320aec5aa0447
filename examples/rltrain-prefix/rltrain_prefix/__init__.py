"""A launcher that starts ranks under a tool, for rltrain."""

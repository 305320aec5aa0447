"""A writer that posts runs to a web address, for rltrain."""

"""A suite in numpy, for rltrain."""

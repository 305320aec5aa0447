"""Gradient sync in half precision, for rltrain."""

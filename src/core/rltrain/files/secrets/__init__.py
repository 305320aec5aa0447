"""Secrets: which they are, and how they are kept out of what is written."""

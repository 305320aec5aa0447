"""Gymnasium tasks and embedded batched tasks for rltrain."""

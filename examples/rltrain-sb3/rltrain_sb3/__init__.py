"""Stable-Baselines3 for rltrain."""

"""Trained policies, for play, evaluate and export."""

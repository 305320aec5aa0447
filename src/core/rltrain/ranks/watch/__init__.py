"""Ranks are watched: which one hangs, and what each one did."""

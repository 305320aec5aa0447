"""The processes of a run: what they print, how they are watched, asked to end, and reported."""

"""The rl_games library for rltrain."""

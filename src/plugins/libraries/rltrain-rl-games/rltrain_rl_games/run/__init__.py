"""Training with rl_games on the ranks of a session."""

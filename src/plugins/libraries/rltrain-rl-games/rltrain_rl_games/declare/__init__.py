"""What is known of a run before its ranks start; imports neither torch nor rl_games."""

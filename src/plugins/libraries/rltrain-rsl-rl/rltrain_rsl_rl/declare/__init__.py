"""What is known of a run before its ranks start; imports neither torch nor rsl_rl."""

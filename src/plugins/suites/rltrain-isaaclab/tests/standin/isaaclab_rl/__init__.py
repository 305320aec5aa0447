"""Isaac Lab's configurations of RL libraries."""

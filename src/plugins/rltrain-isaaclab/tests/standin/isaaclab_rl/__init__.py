"""What Isaac Lab keeps of RL libraries."""

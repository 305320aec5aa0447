"""Options of the RL libraries for the tasks, in the shape of the files that Isaac Lab ships."""

"""Options of the RL libraries for the tasks, in the format of the files that Isaac Lab ships."""

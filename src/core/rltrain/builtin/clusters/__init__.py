"""What launchers and schedulers set: a module for each, with pure functions of the environment."""

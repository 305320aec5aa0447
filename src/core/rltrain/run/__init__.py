"""One rank's run, from start to shutdown."""

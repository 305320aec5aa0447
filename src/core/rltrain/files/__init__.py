"""What others wrote is data: files are read within bounds, and text reaches no terminal raw."""

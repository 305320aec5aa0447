"""The same training on several numbers of ranks, and why it is not faster."""

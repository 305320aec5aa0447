"""The commands, and the flags that they share."""

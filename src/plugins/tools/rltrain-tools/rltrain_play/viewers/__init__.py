"""The viewers of `rltrain play`."""

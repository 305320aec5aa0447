"""The commands `rltrain report` and `rltrain scale`: what runs have done."""

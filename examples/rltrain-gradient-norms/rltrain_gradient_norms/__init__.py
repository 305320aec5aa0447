"""An observer of gradients' norms, for rltrain."""

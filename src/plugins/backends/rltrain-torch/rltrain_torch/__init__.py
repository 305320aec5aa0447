"""torch backends (gloo, nccl) and flat gradient sync for rltrain."""

"""torch backends (gloo, nccl), the elastic launcher and flat gradient sync for rltrain."""

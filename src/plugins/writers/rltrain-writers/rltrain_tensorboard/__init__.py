"""The TensorBoard writer for rltrain."""

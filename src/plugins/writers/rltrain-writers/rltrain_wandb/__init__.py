"""The Weights & Biases writer for rltrain."""

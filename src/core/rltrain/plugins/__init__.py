"""Discovery of plugins, and the plugins of one run."""

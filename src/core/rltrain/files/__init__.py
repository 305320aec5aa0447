"""What others wrote is data: files are read within bounds, and text reaches no terminal raw.

The core of rltrain stands on this library. It knows nothing of plugins, training or ranks. What
plugins need of it is in `rltrain.errors` and `rltrain.terminal`.
"""

"""The processes of a run: what they print, how they are watched, asked to end, and reported.

The core of rltrain stands on this library. It knows nothing of plugins or training: a process is a
rank, or starts ranks. What plugins need of it is in `rltrain.launch` and `rltrain.watch`.
"""

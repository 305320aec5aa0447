"""Ranks are watched: which one hangs, and what each one did. For launchers.

The modules in this package are internal.
"""

from rltrain.watch.hangs import hang_watch

__all__ = ["hang_watch"]

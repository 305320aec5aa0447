from __future__ import annotations

from helpers import small_disk

__all__ = ["small_disk"]

from __future__ import annotations

from small_disks import small_disk

__all__ = ["small_disk"]

"""torch's flight recorder: what it remembers of the last collectives of this process.

NCCL's are recorded, and in newer versions of torch gloo's. Its functions are not public; they are
used here alone.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Mapping
from typing import Any

import torch
import torch._C._distributed_c10d as c10d

import rltrain

_SHOWN = 20
_NOT_THE_CALLER = tuple(
    os.path.dirname(file) + os.sep for file in (torch.__file__, rltrain.__file__, __file__)
)


def last_collectives() -> str:
    """Return a line for each of the last collectives, the last one last; "" if none is recorded."""
    entries = [entry for dump in _dumps() for entry in dump.get("entries", ())]
    entries.sort(key=lambda entry: entry["time_created_ns"])
    return "\n".join(map(_line, entries[-_SHOWN:]))


def _dumps() -> list[Mapping[str, Any]]:
    """Return what the recorders of this build hold, as torch's own tools read it."""
    recorders = (getattr(c10d, name, None) for name in ("_dump_fr_trace", "_dump_nccl_trace"))
    return [pickle.loads(dump()) for dump in recorders if dump is not None]


def _line(entry: Mapping[str, Any]) -> str:
    seconds = time.time() - entry["time_created_ns"] / 1e9
    completed = entry["retired"] or entry["state"] == "completed"
    frames = (f for f in entry.get("frames", ()) if not f["filename"].startswith(_NOT_THE_CALLER))
    at = next((f", at {f['filename']}:{f['line']} in {f['name']}" for f in frames), "")
    return (
        f"  {entry['collective_seq_id']}: {entry['profiling_name']} {entry['input_sizes']}, begun "
        f"{seconds:.1f} s ago, {'completed' if completed else 'not completed'}{at}"
    )

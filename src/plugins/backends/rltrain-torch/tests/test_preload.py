"""What the ranks of a node are forked from: imported once, without CUDA and without a thread."""

from __future__ import annotations

import pytest
from helpers import python

from rltrain.plugins.registry import discover
from rltrain.specs import LibrarySpec

TO_PRELOAD = """
import sys, threading
asked = []
def look(frame, event, argument):
    if event == "call" and frame.f_globals.get("__name__") == "torch.cuda":
        asked.append(frame.f_code.co_name)
import torch
sys.setprofile(look)
for name in ["rltrain_torch.preload", "rltrain.run.worker", *sys.argv[1:]]:
    __import__(name)
sys.setprofile(None)
opens = {"is_available", "device_count", "init", "_lazy_init"}
threads = threading.active_count()
torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1).zero_grad()
imported = set(sys.modules)
torch.optim.Adam([torch.zeros(1, requires_grad=True)]).step()
later = sorted(name for name in set(sys.modules) - imported if name.startswith("torch"))
assert not torch.distributed.is_initialized()
print(sorted(opens.intersection(asked)), threads, later, sep=" | ")
"""


def preloaded() -> list[tuple[str, str]]:
    """Return the modules of installed libraries, with the kind of device."""
    libraries = [spec for spec in discover().all(LibrarySpec) if "torch" in spec.frameworks]
    return [("cpu", "json"), *(pair for spec in libraries for pair in spec.preload.items())]


@pytest.mark.slow
@pytest.mark.parametrize(("device", "module"), preloaded())
def test_what_ranks_are_forked_from_is_imported_without_cuda_or_a_thread(device, module):
    asked, threads, later = python(TO_PRELOAD, module).stdout.splitlines()[-1].split(" | ")
    assert (threads, later) == ("1", "[]")
    if device != "cpu":
        assert asked == "[]"

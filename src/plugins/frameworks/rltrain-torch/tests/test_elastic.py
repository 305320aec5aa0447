"""The options that the launcher `elastic` passes to the installed torch elastic."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rltrain.plugins.registry import discover
from rltrain.specs import LibrarySpec
from rltrain.testing import make_config
from rltrain_torch.elastic import PRELOADED, SHUTDOWN_TIMEOUT, launch_config

TO_PRELOAD = f"""
import sys, threading
library = sys.argv[1:]
asked = []
def look(frame, event, argument):
    if event == "call" and frame.f_globals.get("__name__") == "torch.cuda":
        asked.append(frame.f_code.co_name)
import torch
sys.setprofile(look)
for name in [*{PRELOADED}, *library]:
    __import__(name)
sys.setprofile(None)
opens = {{"is_available", "device_count", "init", "_lazy_init"}}
threads = threading.active_count()
torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1).zero_grad()
imported = set(sys.modules)
torch.optim.Adam([torch.zeros(1, requires_grad=True)]).step()
later = sorted(name for name in set(sys.modules) - imported if name.startswith("torch"))
assert not torch.distributed.is_initialized()
print(sorted(opens.intersection(asked)), threads, later, sep=" | ")
"""


def look() -> None:
    """Do nothing."""


def test_torch_elastic_takes_the_options(tmp_path):
    config = launch_config(
        make_config(distributed=True, nproc_per_node=2, max_restarts=1), tmp_path, look
    )
    assert (config.min_nodes, config.nproc_per_node, config.max_restarts) == (1, 2, 1)
    assert (config.start_method, config.local_addr) == ("forkserver", "127.0.0.1")
    assert config.rdzv_configs["of"] == "rltrain-alone"
    # From torch 2.12 on. Before, ranks have torch's own 30 seconds.
    assert getattr(config, "shutdown_timeout", SHUTDOWN_TIMEOUT) == SHUTDOWN_TIMEOUT


def preloaded() -> list[tuple[str, str]]:
    """Return the modules of installed libraries, with the kind of device."""
    libraries = [spec for spec in discover().all(LibrarySpec) if "torch" in spec.frameworks]
    return [("cpu", "json"), *(pair for spec in libraries for pair in spec.preload.items())]


@pytest.mark.parametrize(("device", "module"), preloaded())
def test_what_ranks_are_forked_from_is_imported_without_cuda_or_a_thread(device, module):
    words = [sys.executable, "-c", TO_PRELOAD, module]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    asked, threads, later = ran.stdout.splitlines()[-1].split(" | ")
    assert (threads, later) == ("1", "[]")
    if device != "cpu":
        assert asked == "[]"


def test_a_node_has_the_address_that_the_user_names(tmp_path):
    nodes = make_config(distributed=True, nnodes=2, node_rank=1, local_addr="10.0.0.2")
    config = launch_config(nodes, tmp_path, look)
    assert (config.min_nodes, config.max_nodes, config.local_addr) == (2, 2, "10.0.0.2")
    assert (config.rdzv_configs["of"], config.rdzv_configs["rank"]) == ("static", 1)


SIGNALED_LATE = """
import operator, os, signal
from rltrain.testing import make_config
from rltrain_torch import children, elastic

def while_it_is_read(*_):
    os.kill(os.getpid(), signal.SIGQUIT)
    raise AssertionError("a handler has run")

if __name__ == "__main__":
    children.failure = while_it_is_read
    try:
        # Fails in a rank: a config cannot be divided by a path.
        elastic.ElasticLauncher().launch(
            make_config(distributed=True, nproc_per_node=1), operator.truediv
        )
    except Exception as error:
        assert signal.getsignal(signal.SIGQUIT) == signal.SIG_DFL
        print(f"{type(error).__name__}: {error}")
"""


def test_a_signal_that_comes_after_a_rank_has_failed_is_told_as_such():
    """The lifeline of several nodes sends one about when this node's ranks lose their peers."""
    words = [sys.executable, "-c", SIGNALED_LATE]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    told = "EndedBySignal: The launcher received SIGQUIT and ended the run."
    assert ran.stdout.splitlines()[-1:] == [told], ran.stderr

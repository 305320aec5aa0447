"""A rank's cores and heap: its part of the node's, its threads, and memory that was freed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from rltrain.ranks import machine
from rltrain.ranks.machine import available_cores, bind_cores, cores_of_rank
from rltrain.ranks.world import World


class Machine:
    """The masks of this process, 0 to Linux, and of its parent; and where each core is."""

    def __init__(self, monkeypatch, tmp_path):
        self.masks, self.folder = {}, tmp_path
        monkeypatch.setattr(machine, "_TOPOLOGY", tmp_path)
        monkeypatch.setattr(os, "getppid", lambda: 7)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(self.masks[pid]))
        monkeypatch.setattr(os, "sched_setaffinity", self._set)

    def _set(self, pid, mask):
        self.masks[pid] = mask

    def allows(self, parent, own=None):
        self.masks = {0: set(own or parent), 7: set(parent)}

    def places(self, *positions):
        for core, (package, number) in enumerate(positions):
            folder = self.folder / f"cpu{core}" / "topology"
            folder.mkdir(parents=True)
            (folder / "physical_package_id").write_text(f"{package}\n")
            (folder / "core_id").write_text(f"{number}\n")

    def bound(self, ranks):
        """Bind each rank of a node; return the ranks' masks and their numbers of threads."""
        found = []
        for rank in range(ranks):
            before, world = dict(self.masks), World(rank, rank, 0, ranks, ranks)
            bind_cores(world)
            found.append((sorted(self.masks[0]), cores_of_rank(world)))
            self.masks = before
        return found


@pytest.fixture
def node(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_PROC_BIND", raising=False)
    return Machine(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("allowed", "parts"),
    [
        ([0, 1], [[0], [1]]),
        ([2, 3, 8, 9], [[2, 3], [8, 9]]),
        (range(5), [[0, 1], [2, 3, 4]]),
        (range(8), [[0, 1], [2, 3, 4], [5, 6, 7]]),
    ],
)
def test_each_rank_has_its_own_part_of_the_cores(node, allowed, parts):
    node.allows(allowed)
    assert node.bound(len(parts)) == [(part, len(part)) for part in parts]


def test_hardware_threads_of_one_core_go_to_one_rank(node):
    """Linux often numbers the second threads of all cores after the first ones."""
    node.allows(range(8))
    node.places((0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1), (1, 0), (1, 1))
    assert [mask for mask, _ in node.bound(4)] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert [mask for mask, _ in node.bound(2)] == [[0, 1, 4, 5], [2, 3, 6, 7]]


def test_nothing_is_bound_where_it_would_not_help_or_was_chosen(node, monkeypatch):
    node.allows([0, 1])
    assert node.bound(3) == [([0, 1], 1)] * 3
    assert node.bound(1) == [([0, 1], 2)]
    node.allows(range(8), own=[4, 5, 6])
    assert node.bound(2) == [([4, 5, 6], 3)] * 2
    node.allows(range(8))
    monkeypatch.setenv("OMP_PROC_BIND", "false")
    assert node.bound(2) == [(list(range(8)), 4)] * 2


def test_a_rank_whose_parent_is_outside_its_container_shares(node, monkeypatch):
    monkeypatch.setattr(os, "getppid", lambda: 0)
    node.allows(range(8))
    assert cores_of_rank(World(world_size=4, local_world_size=4)) == 2


def test_a_sandbox_that_forbids_it_does_not_end_a_rank(node, monkeypatch):
    def refuse(pid, mask):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    node.allows(range(4))
    assert node.bound(2) == [([0, 1, 2, 3], 2)] * 2


def test_linux_binds(monkeypatch):
    monkeypatch.delenv("OMP_PROC_BIND", raising=False)
    if available_cores() < 2:
        pytest.skip("needs two cores")
    child = os.fork()
    if not child:
        world, before = World(1, 1, 0, 2, 2), os.sched_getaffinity(0)
        bind_cores(world)
        own = os.sched_getaffinity(0)
        os._exit(0 if own < before and cores_of_rank(world) == len(own) else 1)
    assert os.waitpid(child, 0)[1] == 0


ARRAYS, BYTES = 50, 8 << 20
PAGES = ARRAYS * BYTES // os.sysconf("SC_PAGE_SIZE")
CHILD = f"""
import resource, sys
from rltrain.ranks.machine import keep_freed_memory

if "keep" in sys.argv:
    keep_freed_memory()
for _ in range({ARRAYS}):
    b"x" * {BYTES}
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def new_pages(*arguments, **environ):
    """Return how many pages Linux gave to a process that makes and frees large arrays."""
    inherited = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    command = [sys.executable, "-c", CHILD, *arguments]
    done = subprocess.run(
        command, env=inherited | environ, capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_large_arrays_use_freed_memory_again_unless_the_user_chose_otherwise():
    chosen = {"MALLOC_MMAP_THRESHOLD_": "131072"}
    assert new_pages("keep") < PAGES / 2 < new_pages("keep", **chosen)

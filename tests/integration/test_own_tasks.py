"""Tasks and scripts of users on two real ranks: what works alone works there, or is refused."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

SERVED = """
import multiprocessing
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

multiprocessing.set_start_method("fork")


class Served(CartPoleEnv):
    # Has a process of its own, whose work cannot be pickled.

    def __init__(self):
        super().__init__()
        self.served, there = multiprocessing.Pipe()
        self.server = multiprocessing.Process(target=lambda: there.send(7), daemon=True)
        self.server.start()

    def reset(self, **more):
        assert self.served.poll(60)
        return super().reset(**more)


gymnasium.register("Served-v0", entry_point=Served, max_episode_steps=50)
"""
SMALL = ("--library", "skrl", "--num-envs", "1", "--max-iterations", "1")
TWO_RANKS = ("--distributed", "--nproc-per-node", "2", "--device", "cpu")


def test_a_task_that_starts_processes_of_its_own(command):
    (command.folder / "served.py").write_text(SERVED)
    run = command(*SMALL, *TWO_RANKS, "--task", "served:Served-v0")
    assert run.returncode == 0, run.stderr

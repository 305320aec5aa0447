"""A third party's plugin, for torch and jax: a library that averages and fails on demand.

A test copies it into its own folder, where it is found as a distribution. The variable PLANTED,
"rank:iteration:how", says which rank fails, when, and how.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from rltrain import hookimpl
from rltrain.records import Scalars
from rltrain.specs import LibrarySpec, OptionSchema, SuiteSpec
from rltrain.types import TaskInfo

FOLDER = "PROBE_FOLDER"
"""Variable: where ranks say that they run, and what they saw."""
KEPT = ("RANK", "MASTER", "NCCL")
"""Parts of names of variables that ranks write down."""


@hookimpl
def rltrain_provides():
    return [
        LibrarySpec(
            name="averager",
            factory="ranks_probe:Averager",
            frameworks=("torch", "jax"),
            algorithms=("none",),
            default_agent=lambda task, algorithm: {"averager": {"size": 16}},
            schema=OptionSchema(required=("averager.size",)),
        ),
        SuiteSpec(
            name="idle",
            factory="ranks_probe:IdleSuite",
            frameworks=("torch", "jax"),
            describe=lambda task, _: TaskInfo(task, "continuous", 2) if task == "Idle-v0" else None,
            tasks=lambda: ["Idle-v0"],
        ),
    ]


class IdleSuite:
    @hookimpl
    def rltrain_make_env(self, session):
        return idle(session.config.num_envs)


def idle(num_envs):
    """Return environments that do nothing, on numpy."""
    import gymnasium
    import numpy as np
    from gymnasium.vector import AutoresetMode, VectorEnv

    class Idle(VectorEnv):
        metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        single_observation_space = gymnasium.spaces.Box(-1, 1, (1,))
        single_action_space = gymnasium.spaces.Box(-1, 1, (1,))

        def reset(self, *, seed=None, options=None):
            return np.zeros((num_envs, 1), np.float32), {}

        def step(self, actions):
            nothing = np.zeros(num_envs, bool)
            observations = np.zeros((num_envs, 1), np.float32)
            return observations, np.zeros(num_envs, np.float32), nothing, nothing, {}

    made = Idle()
    made.num_envs = num_envs
    return made


class Averager:
    """Averages one gradient per rank in each iteration, and sums an array on the host."""

    @hookimpl
    def rltrain_train(self, session):
        import numpy as np

        world, folder = session.world, Path(os.environ[FOLDER])
        gradients, average = averaging(session)
        session.seed("learner")
        session.env.reset()
        (folder / f"rank_{world.rank}.pid").write_text(str(os.getpid()))
        print(f"rank {world.rank} averages")
        ranks = np.arange(world.world_size)
        for iteration in range(1, (session.config.max_iterations or 1000) + 1):
            session.env.step(None)
            fail_as_planted(world.rank, iteration)
            assert average(gradients) == ranks.mean()
            assert session.group.all_reduce(np.array(float(world.rank))) == ranks.sum()
            session.record(Scalars(iteration, {"loss": 1.0}))
            if session.should_stop:
                break
        seen = {
            "world": vars(world),
            "frameworks": sorted({"torch", "jax"} & set(sys.modules)),
            "environ": {k: v for k, v in os.environ.items() if any(x in k for x in KEPT)},
            "kind": type(getattr(session.group, "inner", session.group)).__name__,
        }
        (folder / f"seen_{world.rank}.json").write_text(json.dumps(seen))
        return session.result()


def averaging(session):
    """Return a gradient of the framework, and a function that reads its average's first number."""
    size, rank = session.config.agent["averager"]["size"], float(session.world.rank)
    if session.framework == "torch":
        import torch

        model = session.wrap_model(torch.nn.Linear(size, 1, bias=False), "model")
        sync = session.gradient_sync(list(model.parameters()))
        return [torch.full((1, size), rank)], lambda gradients: float(sync(gradients)[0][0, 0])
    import jax.numpy as jnp

    tree = {"weight": jnp.full(size, rank), "bias": jnp.full(1, rank)}
    sync = session.gradient_sync(session.wrap_model(tree, "model"))
    return tree, lambda gradients: float(sync(gradients)["weight"][0])


def fail_as_planted(rank, iteration):
    who, _, what = os.environ.get("PLANTED", "").partition(":")
    when, _, how = what.partition(":")
    if who != str(rank) or when != str(iteration):
        time.sleep(0.02)
        return
    (Path(os.environ[FOLDER]) / "planted").write_text(repr(time.time()))
    if how == "raise":
        raise ValueError("planted in one rank")
    if how == "exit":
        os._exit(3)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()

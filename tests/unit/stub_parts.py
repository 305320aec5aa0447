"""The classes that `stub_plugin` declares."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import dataclass, field

import numpy as np
import stub_plugin
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv

from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.options import naming
from rltrain.policy import PolicyModule
from rltrain.records import Scalars
from rltrain.run.group import SingleProcess
from rltrain.types import ArrayInfo, TrainResult

EVENTS = stub_plugin.EVENTS


class StubEnv(VectorEnv):
    """Rewards of 1; environment i terminates every i + 2 steps; nothing is truncated."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.single_observation_space = Box(-1, 1, (1,))
        self.single_action_space = Box(-1, 1, (1,))
        self.max_episode_length = 4
        self.limits = np.arange(num_envs) + 2
        self.seeds: list[int | None] = []
        self.closed_times = 0

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        self.length = np.zeros(self.num_envs, dtype=int)
        return np.zeros((self.num_envs, 1)), {}

    def step(self, actions):
        self.length = self.length + 1
        done = self.length == self.limits
        self.length = np.where(done, 0, self.length)
        observations = np.zeros((self.num_envs, 1))
        return observations, np.ones(self.num_envs), done, np.zeros_like(done), {}

    def close_extras(self, **kwargs):
        EVENTS.append("env closed")


class StubBackend:
    @hookimpl
    def rltrain_init_distributed(self, world):
        EVENTS.append("init_distributed")
        return SingleProcess(world.device)

    @hookimpl
    def rltrain_seed(self, stream, seed):
        EVENTS.append(f"seed {stream}")

    @hookimpl
    def rltrain_wrap_model(self, session, model, role):
        EVENTS.append(f"wrap_model {role}")
        return model

    @hookimpl
    def rltrain_shutdown(self, error):
        EVENTS.append(("shutdown", error))


class StubSuite:
    env_class = StubEnv

    @hookimpl
    def rltrain_describe_task(self, session):
        return {"joint_names": "left,right", "stiffness": np.array([0.1]), "clip": (-np.inf, 1)}

    @hookimpl
    def rltrain_make_env(self, session):
        EVENTS.append("make_env")
        return self.env_class(session.config.num_envs)


class StubSync:
    @hookimpl
    def rltrain_gradient_sync(self, session, parameters):
        EVENTS.append("gradient_sync")
        return lambda gradients: gradients


class StubLibrary:
    """Steps the environments as its options say; `fail` is the name of an error to raise."""

    @hookimpl
    def rltrain_train(self, session):
        EVENTS.append("train")
        options = session.config.agent
        session.wrap_model({"weight": np.zeros(2)}, "policy")
        session.gradient_sync([])
        session.seed("learner")
        session.env.reset()
        for iteration in range(1, options["learn"]["iterations"] + 1):
            for _ in range(options["learn"]["steps"]):
                session.env.step(np.zeros((session.env.num_envs, 1)))
            session.record(Scalars(iteration, {"loss": 1.0 / iteration}))
            session.save_checkpoint(
                "last.txt", lambda path, i=iteration: path.write_text(f"stub {i}"), iteration
            )
            if options["fail"]:
                raise {"ValueError": ValueError, "KeyboardInterrupt": KeyboardInterrupt}[
                    options["fail"]
                ]("as asked")
            if session.should_stop:
                break
        return session.result()

    @hookimpl
    def rltrain_load_policy(self, session):
        EVENTS.append(f"load {session.checkpoint.name}")
        return StubPolicy(session.env)


class StubPolicy:
    """Acts as the number of steps since the episode began; remembers which episodes have ended."""

    groups = ("policy",)

    def __init__(self, env):
        self.num_envs = env.num_envs
        self.steps = np.zeros((env.num_envs, 1), np.float32)

    def act(self, observations, deterministic=True):
        self.steps = self.steps + 1
        return self.steps / 10

    def reset(self, done=None):
        EVENTS.append(("forget", None if done is None else done.tolist()))
        self.steps[slice(None) if done is None else done] = 0

    def module(self):
        return PolicyModule(
            function=lambda observations, steps: ((steps + 1) / 10, steps + 1),
            inputs={"policy": ArrayInfo((1,))},
            states={"steps": ArrayInfo((1,))},
            output=ArrayInfo((1,)),
            normalization={"policy": {"mean": [0.5], "std": [np.float32(2)]}},
        )


class StubExporter:
    """Writes the metadata, and runs the function; the variable STUB_EXPORT makes it fail."""

    formats = {"stub": ".stub", "other": ".other"}
    functions = {}

    def check(self, format):
        if os.environ.get("STUB_EXPORT") == "missing":
            raise UsageError(f"--format {format} needs a package: install it.")

    def export(self, module, format, path, metadata, opset=None):
        if os.environ.get("STUB_EXPORT") == "broken":
            raise ValueError("no operator\nfor this")
        path.write_text(json.dumps(metadata))
        self.functions[format] = module.function
        return {"grammar": 1}

    def load(self, path, format):
        added = float(os.environ.get("STUB_ADDED", 0))

        def run(arrays):
            actions, *states = self.functions[format](*arrays)
            return [actions + np.float32(added), *states]

        return run


class StubLauncher:
    def launch(self, config, work):
        EVENTS.append(("launch", config.nproc_per_node))
        return TrainResult(0, 0, None, None, run_dir="")


@dataclass(frozen=True)
class SchedulerOptions:
    queue: str = field(default="short", metadata=naming("text"))
    """Where jobs wait."""
    cores: int = 1
    """Of a rank."""


class StubScheduler:
    """Starts its node in this process."""

    def __init__(self, options):
        EVENTS.append(("queue", options.queue))

    def launch(self, config, work):
        EVENTS.append(("scheduled", config.nnodes, config.nproc_per_node, config.device_kind))
        return pickle.loads(pickle.dumps(work))({"seed": 7})


class NotesWriter:
    @hookimpl
    def rltrain_write(self, record):
        EVENTS.append(f"write {type(record).__name__}")
        stub_plugin.RECORDS.append(record)


class MoreNotesWriter:
    @hookimpl
    def rltrain_write(self, record):
        EVENTS.append(f"write more {type(record).__name__}")


class Watcher:
    @hookimpl(wrapper=True)
    def rltrain_train(self, session):
        EVENTS.append("before train")
        try:
            return (yield)
        finally:
            EVENTS.append("after train")

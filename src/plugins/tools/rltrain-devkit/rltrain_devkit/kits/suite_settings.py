"""The settings of `SuiteConformance`, how it makes environments, and how it steps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector.utils import batch_space

from rltrain.options import nested_env, resolve_env
from rltrain.plugins import discover, usual_of
from rltrain.seeding import SeedPlan
from rltrain.specs import SuiteSpec, load_object
from rltrain.testing import RankSession, RunPlugins, make_config
from rltrain.types import TaskInfo, World
from rltrain_devkit.kits import arrays as kit_arrays
from rltrain_devkit.kits.rules import Kit, skip

STEPS = 32
"""Steps over which two trajectories are compared."""


class SuiteSettings(Kit):
    """The attributes that a subclass of `SuiteConformance` sets."""

    suite: str
    """Name of the suite."""
    task: str
    """One of its tasks."""
    env: ClassVar[Mapping[str, Any]] = {}
    """`env.` options of the environments, which `describe` gets too. Short episodes make tests
    fast."""
    framework: str = "torch"
    """Framework of the environments' arrays."""
    device: str = "cpu"
    """Device of the arrays."""
    num_envs: int = 8
    """Number of environments, 2 or more."""
    max_steps: int = 600
    """Maximum number of random steps in which episodes must end in the ways that the flags say."""
    reproducible: bool = True
    """Whether the same seed and actions give the same numbers, to the last bit."""
    varies: bool = True
    """Whether anything is random, in first states or later. False for deterministic tasks."""
    ends: bool = True
    """Whether episodes terminate by themselves."""
    truncates: bool = True
    """Whether a time limit truncates episodes."""

    def spec(self) -> SuiteSpec:
        """Return the spec that the installed plugin declares."""
        return discover().get(SuiteSpec, self.suite)

    def info(self, env: Mapping[str, Any] | None = None) -> TaskInfo:
        """Return the suite's description of the task, with the options `env` if none are given."""
        options = nested_env(self.env if env is None else env)
        info = self.spec().describe(self.task, options)
        assert info is not None, (
            f"describe({self.task!r}, {options}) returns None: it does not know the task."
        )
        return info

    def make(self, options: Mapping[str, Any], renders: bool = False) -> Any:
        """Make environments as a run does; return the suite's own object."""
        if (reason := kit_arrays.missing(self.framework)) is not None:
            skip(reason)
        config = make_config(
            task=self.task,
            suite=self.suite,
            framework=self.framework,
            num_envs=self.num_envs,
            env=options,
            renders=renders,
        )
        plugins = RunPlugins()
        plugins.choose(self.spec())
        path = usual_of(discover(), self.framework, "arrays")
        arrays = {} if path is None else {self.framework: load_object(path)()}
        session = RankSession(config, World(device=self.device), plugins, arrays=arrays)
        session.seeds = SeedPlan(config.seed, rank=0)
        session.seed("environment")
        return plugins.first("rltrain_make_env", f"suite {self.suite!r}", session=session)

    @contextmanager
    def environment(self) -> Iterator[Any]:
        """Make environments with the options `env`, and close them at the end."""
        with closing(self.make(resolve_env(self.info(), self.env))) as env:
            yield env

    @contextmanager
    def player(self, alike: bool = False) -> Iterator[Player]:
        """Make environments, and a player that steps them with random actions."""
        with self.environment() as env:
            yield Player(env, self.framework, self.device, alike)

    def offered(self, env: Any, name: str) -> Any:
        """Return an optional attribute of the environment; skip the test if there is none."""
        value = getattr(env.unwrapped, name, None)
        if value is None:
            skip(f"the environment does not have {name}")
        return value

    def skip_unless(self, flag: str) -> None:
        """Skip the running test if the author has disabled the flag."""
        if not getattr(self, flag):
            skip(f"{flag} = False")

    def check_array(self, x: Any, shape: tuple[int, ...], dtypes: Sequence[str], name: str) -> None:
        """Check an array that a library will get, by the names of the allowed dtypes."""
        framework = kit_arrays.framework_of(x)
        assert framework == self.framework, (
            f"{name}: is a {type(x).__name__} of {framework}; must be an array of {self.framework}."
        )
        device = kit_arrays.array(self.framework, 0, device=self.device).device
        assert x.device == device, f"{name}: is on {x.device}; must be on {device}."
        assert tuple(x.shape) == shape, f"{name}: has shape {tuple(x.shape)}; must be {shape}."
        dtype = str(x.dtype).removeprefix("torch.")
        assert dtype in dtypes, f"{name}: has dtype {dtype}; must be {' or '.join(dtypes)}."
        assert not getattr(x, "requires_grad", False), (
            f"{name}: has a gradient history, which grows with every step; detach it."
        )

    def set_lengths(self, env: Any, length: int) -> None:
        """Set every environment's `episode_length_buf`."""
        env.unwrapped.episode_length_buf = kit_arrays.array(
            self.framework, [length] * env.num_envs, "int64", self.device
        )


@dataclass(frozen=True)
class Step:
    """The results of a step, as numpy copies, because simulators reuse their buffers."""

    observations: Any
    """Shape (num_envs, components): all groups side by side."""
    rewards: Any
    """Shape (num_envs, 1); zeros after a reset."""
    terminations: Any
    """Shape (num_envs,)."""
    truncations: Any
    """Shape (num_envs,)."""
    info: Mapping[str, Any]
    final_obs: Any = None
    """`info["final_obs"]`, shaped like `observations`; None if there is none."""

    @property
    def ended(self) -> Any:
        """Whether each environment's episode ended, shape (num_envs,)."""
        return self.terminations | self.truncations


class Player:
    """Steps environments with random actions, the same ones after every reset."""

    def __init__(self, env: Any, framework: str, device: str, alike: bool = False) -> None:
        """Create a player; `alike`: all environments get the same actions."""
        self.env = env
        self._framework, self._device, self._alike = framework, device, alike
        self.rewind()

    def rewind(self) -> None:
        """Restart the sequence of actions."""
        one = self.env.single_action_space
        self._space = batch_space(one, 1 if self._alike else self.env.num_envs)
        self._space.seed(0)

    def actions(self) -> Any:
        """Sample an action for each environment: float32 for a Box, else int64, as libraries do."""
        sample = self._space.sample()
        values = sample.repeat(self.env.num_envs // len(sample), axis=0)
        dtype = "float32" if values.dtype.kind == "f" else "int64"
        return kit_arrays.array(self._framework, values, dtype, self._device)

    def reset(self, seed: int | None = None) -> Step:
        """Start an episode in every environment, and restart the sequence of actions."""
        self.rewind()
        observations, info = self.env.reset(seed=seed)
        n = self.env.num_envs
        never = np.zeros(n, dtype=bool)
        return Step(self._joined(observations), np.zeros((n, 1)), never, never, info)

    def step(self, actions: Any = None) -> Step:
        """Step every environment once, with the next random actions if none are given."""
        actions = self.actions() if actions is None else actions
        observations, rewards, terminations, truncations, info = self.env.step(actions)
        final_obs = info.get("final_obs")
        return Step(
            self._joined(observations),
            self._joined(rewards),
            self._joined(terminations)[:, 0].astype(bool),
            self._joined(truncations)[:, 0].astype(bool),
            info,
            None if final_obs is None else self._joined(final_obs),
        )

    def steps(self, count: int) -> Iterator[Step]:
        """Return an iterator that steps up to `count` times, once for each item."""
        return (self.step() for _ in range(count))

    def play(self, count: int, seed: int | None = None) -> list[Step]:
        """Reset, then step `count` times; the reset is the first item."""
        return [self.reset(seed), *self.steps(count)]

    def _joined(self, arrays: Any) -> Any:
        parts = [kit_arrays.to_numpy(part) for part in groups(arrays, "").values()]
        return np.concatenate([part.reshape(self.env.num_envs, -1) for part in parts], axis=1)


def groups(value: Any, label: str) -> dict[str, Any]:
    """Return observations, or a space, as groups by the names that messages use."""
    spaces = getattr(value, "spaces", value)
    if isinstance(spaces, Mapping):
        return {f"{label}[{name!r}]": spaces[name] for name in sorted(spaces)}
    return {label: value}


def table(steps: Sequence[Step]) -> Any:
    """Return all numbers of some steps in one array: shape (len(steps), num_envs, numbers)."""
    return np.stack(
        [
            np.column_stack((step.observations, step.rewards, step.terminations, step.truncations))
            for step in steps
        ]
    )


def first_difference(one: Sequence[Step], other: Sequence[Step]) -> str | None:
    """Describe the first difference between two sequences of steps; None if there is none."""
    first, second = table(one), table(other)
    differing = np.argwhere((first != second) & ~(np.isnan(first) & np.isnan(second)))
    if not len(differing):
        return None
    step, index, _ = differing[0]
    return (
        f"step {step}, environment {index}: observations, reward, terminated, truncated "
        f"{first[step, index].tolist()} and {second[step, index].tolist()}"
    )

"""The settings of `SuiteConformance`, and how it makes environments from them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, ClassVar

from rltrain.options import nested_env, resolve_env
from rltrain.plugins import Registry, discover, usual_of
from rltrain.seeding import SeedPlan
from rltrain.specs import SuiteSpec, load_object
from rltrain.testing import RankSession, RunPlugins, make_config
from rltrain.types import TaskInfo, World
from rltrain_devkit.kits import arrays as kit_arrays
from rltrain_devkit.kits.given import GivenPlugins
from rltrain_devkit.kits.rules import skip
from rltrain_devkit.kits.suite_rollout import Player


class SuiteSettings(GivenPlugins):
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

    @classmethod
    @functools.cache
    def registry(cls) -> Registry:
        """Return the installed plugins; cached, because discovery reads all metadata."""
        return discover()

    def spec(self) -> SuiteSpec:
        """Return the spec that the installed plugin declares."""
        return self.registry().get(SuiteSpec, self.suite)

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
        reason = kit_arrays.missing(self.framework)
        if reason is not None:
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

    def check_array(self, x: Any, shape: tuple[int, ...], dtypes: Sequence[str], name: str) -> None:
        """Check an array that a library will get.

        Args:
            x: the array.
            shape: expected shape.
            dtypes: names of the allowed dtypes.
            name: the array's name in messages.
        """
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

    def bound(self, flag: str) -> str:
        """Describe the limits of the search, and what the author can do."""
        return (
            f"max_steps = {self.max_steps} steps of {self.num_envs} environments with the options "
            f"{dict(self.env)}. If the task's episodes do end this way, shorten them with `env` or "
            f"raise `max_steps`; if they never do, set `{flag} = False`."
        )

    def skip_unless(self, flag: str) -> None:
        """Skip the running test if the author has disabled the flag."""
        if not getattr(self, flag):
            skip(f"{flag} = False")

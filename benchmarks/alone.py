"""One process on the embedded cart-pole: a library's own run, or rltrain's with the same options.

The library's own run uses its runner, its agent and its log. Both runs use the same wrapper of the
environments, which marks the start of each iteration, so that both are measured at the same points.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # rsl_rl imports GitPython.

__all__ = ["LIBRARIES", "TASK", "Waits", "lapped", "train", "waits"]

LIBRARIES = ("rl_games", "rsl_rl", "skrl")
TASK = "rltrain/CartPoleContinuous-v1"

Lap = Callable[[], None]
"""Called in the first step of each iteration's rollout."""

Seen = Callable[[Any], Any]
"""Called with what a step of the environments returns."""


def train(
    how: str,
    library: str,
    device: str,
    num_envs: int,
    iterations: int,
    folder: str,
    lap: Lap,
    agent: Mapping[str, Any] | None = None,
    backend: str = "gloo",
    more: Sequence[tuple[str, object]] = (),
    task: str = TASK,
    seen: Seen | None = None,
) -> None:
    """Train in this process.

    Args:
        how: "native", "rltrain", or "rank": one rank, with its place in environment variables.
        library: the library.
        device: such as "cpu" or "cuda:0".
        num_envs: the number of environments.
        iterations: the number of iterations.
        folder: where the run writes files.
        lap: called at the start of each iteration.
        agent: further options of the library, by dotted key.
        backend: that of a rank on the CPU.
        more: names and plugins with run hooks, for rltrain.
        task: the name of the task.
        seen: called with what each step of the environments returns; returns it.
    """
    from rltrain.plan.resolve import make_plan

    options = {"library": library, "task": task, "num_envs": num_envs, "agent": agent or {}}
    run = {"max_iterations": iterations, "device": device, "log_root": folder, "writers": ()}
    place: Mapping[str, str] = {}
    if how == "rank":
        place = os.environ
        alone = int(place["WORLD_SIZE"]) == 1 and device.startswith("cuda")
        run |= {"distributed": True, "backend": "nccl" if alone else backend}
    plan = make_plan({**options, **run}, place)
    if how == "native":
        steps = plan.iteration.steps if plan.iteration else 0
        env = lapped(_environments(plan, device), steps, lap, seen)
        native = {"rl_games": _rl_games, "rsl_rl": _rsl_rl, "skrl": _skrl}[library]
        native(copy.deepcopy(dict(plan.config.agent)), env, device, iterations, folder)
    else:
        _rltrain(plan, lap, more, seen)


def _rltrain(plan: Any, lap: Lap, more: Sequence[tuple[str, object]], seen: Seen | None) -> None:
    from rltrain import hookimpl
    from rltrain.ranks.machine import keep_freed_memory
    from rltrain.run.worker import make_session

    keep_freed_memory()  # As rltrain's ranks do.

    class Laps:
        @hookimpl(wrapper=True)
        def rltrain_make_env(self) -> Iterator[None]:
            return lapped((yield), plan.iteration.steps, lap, seen)

    make_session(plan.config, plan.world, plan.registry, [("laps", Laps()), *more]).run()


def _environments(plan: Any, device: str) -> Any:
    """Make the environments as their suite does, without rltrain's wrapper."""
    from rltrain.plugins.manager import RunPlugins
    from rltrain.run.session import RankSession
    from rltrain.seeding import SeedPlan
    from rltrain.specs import SuiteSpec
    from rltrain.types import World

    plugins = RunPlugins()
    plugins.choose(plan.registry.get(SuiteSpec, plan.config.suite))
    session = RankSession(plan.config, World(device=device), plugins)
    session.seeds = SeedPlan(1, rank=0)
    return plugins.first("rltrain_make_env", f"suite {plan.config.suite!r}", session=session)


def lapped(env: Any, steps: int, lap: Lap, seen: Seen | None = None) -> Any:
    """Make environments call `lap` in the first of every `steps` steps, and `seen` after each."""
    step, count = env.step, itertools.count()

    def stepped(actions: Any) -> Any:
        if next(count) % steps == 0:
            lap()
        return step(actions) if seen is None else seen(step(actions))

    env.step = stepped
    return env


def _rl_games(
    options: dict[str, Any], made: Any, device: str, iterations: int, folder: str
) -> None:
    from rl_games.torch_runner import Runner

    from rltrain_rl_games.run.env import RlGamesEnv

    env = RlGamesEnv(made)
    config = options["params"]["config"]
    config.setdefault("torch_compile", device != "cpu")  # rltrain's default.
    config.update(
        name="native",
        env_name="any",
        reward_shaper={},
        num_actors=made.num_envs,
        env_info=env.get_env_info(),
        vec_env=env,
        device=device,
        device_name=device,
        max_epochs=iterations,
        train_dir=folder,
    )
    options["params"].update(seed=1, torch_threads=0)
    runner = Runner()
    runner.load_config(options["params"])
    runner.run_train({"train": True})


def _rsl_rl(options: dict[str, Any], made: Any, device: str, iterations: int, folder: str) -> None:
    from rsl_rl.runners import OnPolicyRunner

    from rltrain_rsl_rl.run.env import RslRlEnv

    options.setdefault("obs_groups", {"actor": ["policy"], "critic": ["policy"]})
    runner = OnPolicyRunner(RslRlEnv(made, device), options, log_dir=folder, device=device)
    runner.learn(iterations)


def _skrl(options: dict[str, Any], made: Any, device: str, iterations: int, folder: str) -> None:
    from rltrain.types import World
    from rltrain_skrl.run import bootstrap

    with bootstrap.configured(World(device=device)):
        from skrl.utils.runner.torch import Runner

        from rltrain_skrl.run.torch.env import SkrlEnv

        options["seed"] = 1
        rollouts = options["agent"]["rollouts"]
        # Logs once per iteration, like rltrain.
        options["agent"]["experiment"] = {"directory": folder, "write_interval": rollouts}
        options["trainer"] |= {
            "timesteps": iterations * rollouts,
            "headless": True,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
        }
        Runner(SkrlEnv(made, device, "episode"), options).run("train")


class Waits:
    """The places where a run waits for its device, by module and line."""

    def __init__(self) -> None:
        self.places: Counter[str] = Counter()
        self.laps: list[Counter[str]] = []

    def note(self) -> None:
        """Count a wait, at the innermost frame outside torch."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_PASSED):
            if frame.f_code.co_filename.startswith(f"{_TORCH}optim"):
                return  # Reads the optimizer's step count, which is on the CPU.
            frame = frame.f_back
        if frame is None:
            return
        module = frame.f_globals["__name__"]
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        self.places[f"{module}:{frame.f_lineno} {line}"] += 1

    def lap(self) -> None:
        """End an iteration."""
        self.laps.append(self.places)
        self.places = Counter()

    @property
    def iteration(self) -> Counter[str]:
        """The waits of the last complete iteration."""
        return self.laps[-1]


@contextlib.contextmanager
def waits(device: str) -> Iterator[Waits]:
    """Count the waits for a device.

    On a GPU these are the warnings of torch's sync debug mode. On the CPU nothing waits; instead,
    calls that would wait on a GPU are counted: reading tensor values, truth tests, and indices of
    nonzero elements.
    """
    found = Waits()
    counting = _Warnings(found) if device.startswith("cuda") else _Reads(found)
    with counting:
        yield found


_READS = {
    torch.Tensor.item,
    torch.Tensor.tolist,
    torch.Tensor.cpu,
    torch.Tensor.__bool__,
    torch.Tensor.__float__,
    torch.Tensor.__int__,
    torch.Tensor.__index__,
    torch.Tensor.nonzero,
    torch.nonzero,
    torch.masked_select,
    torch.Tensor.masked_select,
}


class _Reads(TorchFunctionMode):
    def __init__(self, found: Waits) -> None:
        super().__init__()
        self._found = found

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _READS or (func is torch.Tensor.__getitem__ and _is_mask(args[1])):
            self._found.note()
        return func(*args, **(kwargs or {}))


def _is_mask(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, torch.Tensor) and part.dtype == torch.bool for part in parts)


class _Warnings:
    def __init__(self, found: Waits) -> None:
        self._found = found

    def __enter__(self) -> None:
        self._catching = warnings.catch_warnings()
        self._catching.__enter__()
        warnings.simplefilter("always")
        warnings.showwarning = self._note
        torch.cuda.set_sync_debug_mode("warn")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        torch.cuda.set_sync_debug_mode("default")
        self._catching.__exit__(kind, error, trace)

    def _note(self, message: Any, *_: Any, **__: Any) -> None:
        if "synchronizing CUDA operation" in str(message):
            self._found.note()


_TORCH = os.path.dirname(torch.__file__) + os.sep
_PASSED = (_TORCH, __file__, warnings.__file__, contextlib.__file__)
"""Files that are skipped in the search for the place of a wait."""

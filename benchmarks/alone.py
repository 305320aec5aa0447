"""One process on the embedded cart-pole: a library's own run, or rltrain's with the same options.

The library's own run uses its runner, its agent and its log. Both runs use the same wrapper of the
environments, which marks the start of each iteration, so that both are measured at the same points.
A process may also be one rank of the library's own multi-process code. Of that only the startup is
replaced, because it would need NCCL and a GPU: the process group is made with gloo, and the
library's rank and world size are set directly.
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
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

from rltrain.types import World

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
        how: "native", "rltrain", or one rank with its place in environment variables: "native rank"
            of the library's own code, or "rank".
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
    if how in ("rltrain", "rank"):
        return _rltrain(plan, lap, more, seen)
    native = {"rl_games": _rl_games, "rsl_rl": _rsl_rl, "skrl": _skrl}[library]
    options = copy.deepcopy(dict(plan.config.agent))
    steps = plan.iteration.steps if plan.iteration else 0
    with _joined(device, how == "native rank") as world:
        env = lapped(_environments(plan, world), steps, lap, seen)
        native(options, env, world, iterations, folder)


@contextlib.contextmanager
def _joined(device: str, ranks: bool) -> Iterator[World]:
    """Join the process group, if this is one of several ranks, and yield its place."""
    if not ranks:
        yield World(device=device)
        return
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    try:
        yield World(rank, rank, 0, dist.get_world_size(), device=device)
    finally:
        dist.destroy_process_group()


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


def _environments(plan: Any, world: World) -> Any:
    """Make the environments as their suite does, without rltrain's wrapper for a single process."""
    from rltrain.metrics.environment import CountedEnv
    from rltrain.plugins.manager import RunPlugins
    from rltrain.run.session import RankSession
    from rltrain.seeding import SeedPlan
    from rltrain.specs import SuiteSpec

    plugins = RunPlugins()
    plugins.choose(plan.registry.get(SuiteSpec, plan.config.suite))
    session = RankSession(plan.config, world, plugins)
    session.seeds = SeedPlan(1, rank=world.rank)
    made = plugins.first("rltrain_make_env", f"suite {plan.config.suite!r}", session=session)
    return made if world.world_size == 1 else CountedEnv(made, seed=world.rank)


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
    options: dict[str, Any], made: Any, world: World, iterations: int, folder: str
) -> None:
    from rl_games.algos_torch.a2c_continuous import A2CAgent
    from rl_games.torch_runner import Runner

    from rltrain_rl_games.run.env import RlGamesEnv

    class Rank(A2CAgent):  # type: ignore[misc]
        def __init__(self, base_name: str, params: dict[str, Any]) -> None:
            if world.rank:  # As the replaced startup does on all ranks but the first.
                params["config"].update(print_stats=False, lr_schedule=None)
            super().__init__(base_name, params)
            self.multi_gpu, self.world_size = True, world.world_size
            # With local rank -1, selecting the CUDA device does nothing, so no GPU is needed.
            self.global_rank, self.local_rank = world.rank, -1

    env = RlGamesEnv(made)
    config = options["params"]["config"]
    config.setdefault("torch_compile", world.device != "cpu")  # rltrain's default.
    config.update(
        name="native",
        env_name="any",
        reward_shaper={},
        num_actors=made.num_envs,
        env_info=env.get_env_info(),
        vec_env=env,
        device=world.device,
        device_name=world.device,
        max_epochs=iterations,
        train_dir=f"{folder}/{world.rank}",
    )
    options["params"].update(seed=1 + world.rank, torch_threads=0)
    runner = Runner()
    runner.load_config(options["params"])
    if world.world_size == 1:
        runner.run_train({"train": True})
    else:
        Rank(base_name="run", params=runner.params).train()


def _rsl_rl(options: dict[str, Any], made: Any, world: World, iterations: int, folder: str) -> None:
    from rsl_rl.runners import OnPolicyRunner

    from rltrain_rsl_rl.run.env import RslRlEnv

    class Rank(OnPolicyRunner):  # type: ignore[misc]
        def _configure_multi_gpu(self) -> None:
            rank, size = world.rank, world.world_size
            self.is_distributed, self.gpu_world_size = True, size
            self.gpu_global_rank = self.gpu_local_rank = rank
            self.cfg["multi_gpu"] = dict(global_rank=rank, local_rank=rank, world_size=size)

    alone, device = world.world_size == 1, world.device
    options.setdefault("obs_groups", {"actor": ["policy"], "critic": ["policy"]})
    runner = OnPolicyRunner if alone else Rank
    log_dir = folder if alone else None
    runner(RslRlEnv(made, device), options, log_dir=log_dir, device=device).learn(iterations)


def _skrl(options: dict[str, Any], made: Any, world: World, iterations: int, folder: str) -> None:
    from rltrain_skrl.run import bootstrap

    with bootstrap.configured(world):
        from skrl.utils.runner.torch import Runner

        from rltrain_skrl.run.torch.env import SkrlEnv

        options["seed"] = 1
        rollouts = options["agent"]["rollouts"]
        # Logs once per iteration, like rltrain.
        log = {"directory": folder, "write_interval": rollouts}
        quiet = {"write_interval": 0, "checkpoint_interval": 0}
        options["agent"]["experiment"] = log if world.world_size == 1 else quiet
        options["trainer"] |= {
            "timesteps": iterations * rollouts,
            "headless": True,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
        }
        Runner(SkrlEnv(made, world.device, "episode"), options).run("train")


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

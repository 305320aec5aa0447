"""Compares the speed of jax ranks with skrl's own gradient reduction and with rltrain's.

    python benchmarks/jax_sync.py
    python benchmarks/jax_sync.py --num-envs 256 --repeats 5

Both train skrl's PPO from rltrain's default options on real processes of this machine's CPU, on the
embedded cart-pole. "native" is skrl's Runner, started with the variables of skrl's own launcher;
the only addition is the import of a jax module that skrl uses without importing it. Runs alternate.
An iteration's time is the median over all runs, without each run's first iterations, in which
programs are compiled.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from gymnasium.vector import VectorWrapper

import ranks

TASK = "rltrain/CartPoleContinuous-v1"
WARM = 2
"""Iterations in which programs may be compiled."""
REDUCTIONS = 30


class Measured(NamedTuple):
    """One rank's measurements of a run."""

    iterations: list[float]
    """Seconds of each iteration after the first ones."""
    reduction: float
    """Median seconds of one reduction of the policy's gradients."""
    compilations: int
    """Programs compiled in those iterations."""
    rollouts: int
    """Steps per environment in an iteration."""


class Clock(VectorWrapper[Any, Any, Any, Any, Any]):
    """Records the start time of each step."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.times: list[float] = []
        self.compiled: list[int] = []
        self._compilations = compilations()

    def step(self, actions: Any) -> Any:
        """Step the environments."""
        self.times.append(time.perf_counter())
        self.compiled.append(len(self._compilations))
        return super().step(actions)

    def measured(self, rollouts: int, reduction: float) -> Measured:
        """Return the measurements, without the last iteration, whose end is not seen."""
        begins = self.times[WARM * rollouts :: rollouts]
        compiled = self.compiled[WARM * rollouts :: rollouts]
        seconds = [after - before for before, after in itertools.pairwise(begins)]
        return Measured(seconds, reduction, compiled[-1] - compiled[0], rollouts)


def compilations() -> list[str]:
    """Return a list to which all future compilations are appended."""
    import jax

    found: list[str] = []

    def note(event: str, duration_secs: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    return found


def median_time(reduce: Callable[[Any], Any], tree: Any) -> float:
    """Return the median seconds of one reduction."""
    import jax

    seconds = []
    for _ in range(REDUCTIONS):
        started = time.perf_counter()
        jax.block_until_ready(reduce(tree))
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def adapted(num_envs: int, iterations: int, folder: str) -> Measured:
    """Run one rank of rltrain's training."""
    from rltrain import hookimpl
    from rltrain.plan.resolve import make_plan
    from rltrain.run.worker import make_session

    class Watch:
        clock: Clock
        reduction = 0.0

        @hookimpl(wrapper=True)
        def rltrain_make_env(self) -> Any:
            self.clock = Clock((yield))
            return self.clock

        @hookimpl(wrapper=True)
        def rltrain_gradient_sync(self, parameters: Any) -> Any:
            self.parameters = parameters
            return (yield)

        @hookimpl(wrapper=True)
        def rltrain_train(self, session: Any) -> Any:
            result = yield
            policy = next(iter(self.parameters.values()))
            self.reduction = median_time(session.gradient_sync(policy), policy)
            return result

    watch = Watch()
    run = {"max_iterations": iterations, "distributed": True, "device": "cpu", "writers": ()}
    asked = {"library": "skrl", "framework": "jax", "task": TASK, "num_envs": num_envs}
    plan = make_plan({**asked, **run, "log_root": folder})
    assert plan.world is not None
    make_session(plan.config, plan.world, plan.registry, [("watch", watch)]).run()
    return watch.clock.measured(plan.config.agent["agent"]["rollouts"], watch.reduction)


def native(num_envs: int, iterations: int, folder: str) -> Measured:
    """Run one rank of skrl's own training."""
    from rltrain.types import TaskInfo
    from rltrain_skrl.declare.options import default_agent, in_jax

    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        os.environ[f"JAX_{name}"] = os.environ.pop(name)
    os.environ["JAX_COORDINATOR_ADDR"] = os.environ.pop("MASTER_ADDR")
    os.environ["JAX_COORDINATOR_PORT"] = os.environ.pop("MASTER_PORT")
    import gymnasium
    import skrl
    from skrl.utils.runner.jax import Runner

    import rltrain_gymnasium.registration  # noqa: F401 - registers the tasks with gymnasium
    from rltrain.metrics.environment import CountedEnv
    from rltrain_skrl.run.jax.env import SkrlEnv

    made = gymnasium.make_vec(TASK, num_envs=num_envs, framework="jax", device="cpu")
    clock = Clock(made)
    task = TaskInfo(TASK, "continuous", num_envs=num_envs)
    options: Any = in_jax(default_agent(task, "ppo"))
    options["seed"] = 1
    rollouts = options["agent"]["rollouts"]
    options["agent"]["experiment"] |= {"directory": folder, "write_interval": 0}
    options["agent"]["experiment"]["checkpoint_interval"] = 0
    options["trainer"] |= {"timesteps": iterations * rollouts, "disable_progressbar": True}
    options["trainer"] |= {"headless": True, "close_environment_at_exit": False}
    counted = CountedEnv(clock, skrl.config.jax.rank)
    runner = Runner(SkrlEnv(counted, skrl.config.jax.device, "episode"), options)
    runner.run("train")
    policy = runner.agent.policy
    return clock.measured(rollouts, median_time(policy.reduce_parameters, policy.state_dict.params))


def main() -> None:
    """Run all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--num-envs", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=8, help="per run, including the first 2")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    ranks.TIMEOUT = 600
    print("| environments per rank | | steps/s (spread) | one reduction | compilations |")
    print("|---|---|---|---|---|")
    for num_envs in given.num_envs:
        measured: dict[str, list[Measured]] = {"native": [], "rltrain": []}
        for _ in range(given.repeats):
            for which, function in (("native", native), ("rltrain", adapted)):
                results = ranks.on_ranks(function, given.ranks, num_envs, given.iterations)
                if isinstance(results, str):
                    raise SystemExit(f"{which}, {num_envs} environments: {results}")
                measured[which].append(results[0])
        envs = num_envs * given.ranks
        speeds = {
            which: sorted(envs * run.rollouts / each for run in runs for each in run.iterations)
            for which, runs in measured.items()
        }
        for which, runs in measured.items():
            found = speeds[which]
            reduction = statistics.median(run.reduction for run in runs) * 1000
            print(
                f"| {num_envs} | {which} | {statistics.median(found):,.0f} "
                f"({found[0]:,.0f} to {found[-1]:,.0f}) | {reduction:.2f} ms "
                f"| {max(run.compilations for run in runs)} |"
            )
        ratio = statistics.median(speeds["rltrain"]) / statistics.median(speeds["native"])
        print(f"| {num_envs} | ratio | {ratio:.1f} | | |", flush=True)


if __name__ == "__main__":
    main()

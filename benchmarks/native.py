"""Measures how much ranks differ with each library's own multi-process code, and with rltrain.

    python benchmarks/native.py
    python benchmarks/native.py --library skrl --iterations 20 --ranks 2

Each row trains the embedded cart-pole on real gloo processes, with rltrain's default options except
for those that the row names. It prints how much the ranks' parameters, normalizers and learning
rates differ at the end (the largest absolute difference). "native" is the library's own runner and
agent. Only its startup is replaced, because it would need NCCL and a GPU: the process group is made
with gloo, and the library's rank and world size are set directly.
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from alone import Lap, lapped

from ranks import on_ranks

TASK = "rltrain/CartPoleContinuous-v1"
NUM_ENVS = 64


class Row(NamedTuple):
    """One line of the table."""

    library: str
    what: str
    options: Mapping[str, Any]


ROWS = [
    Row("rl_games", "adaptive learning rate", {}),
    Row("rl_games", "`schedule_type: standard`", {"params.config.schedule_type": "standard"}),
    Row("rsl_rl", "adaptive learning rate, normalizers", {}),
    Row("skrl", "KLAdaptiveLR", {"agent.learning_rate_scheduler": "KLAdaptiveLR"}),
    Row("skrl", "`kl_threshold: 0.002`", {"agent.kl_threshold": 0.002}),
]

Ends = dict[str, Any]
"""A rank's final values: "parameters" and "normalizers" by name, and "rates"."""


def adapted(row: Row, iterations: int, folder: str) -> Ends:
    """Run one rank of rltrain's training."""
    from rltrain import hookimpl
    from rltrain.plan.resolve import make_plan
    from rltrain.run.worker import make_session

    models: dict[str, Any] = {}
    rates: list[Any] = []

    class Keeper:
        @hookimpl(wrapper=True)
        def rltrain_wrap_model(self, role: str) -> Iterator[None]:
            models[role] = model = yield
            return model

        @hookimpl
        def rltrain_shutdown(self, session: Any) -> None:
            watched = [role for role in session.recorder.watched if "optimi" in role]
            rates.extend(
                value
                for role in watched
                for name, value in session.recorder.watched[role]().items()
                if "rate" in name
            )

    options = {"library": row.library, "task": TASK, "num_envs": NUM_ENVS, "agent": row.options}
    run = {"max_iterations": iterations, "distributed": True, "device": "cpu", "writers": ()}
    plan = make_plan({**options, **run, "log_root": folder})
    assert plan.world is not None
    make_session(plan.config, plan.world, plan.registry, [("keeper", Keeper())]).run()
    return ends(models, rates)


def native(
    row: Row, iterations: int, folder: str, num_envs: int = NUM_ENVS, lap: Lap | None = None
) -> Ends:
    """Run one rank of the library's own training.

    Args:
        row: the library and its options.
        iterations: how many.
        folder: where the run writes files.
        num_envs: environments of this rank.
        lap: called at the start of each iteration.
    """
    import torch
    import torch.distributed as dist

    from rltrain.plan.resolve import make_plan

    alone = {"library": row.library, "task": TASK, "num_envs": num_envs, "agent": row.options}
    place = {name: os.environ.pop(name) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    plan = make_plan({**alone, "device": "cpu"}, {})
    options = copy.deepcopy(dict(plan.config.agent))
    os.environ.update(place)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    env = environments(num_envs)
    if lap is not None and plan.iteration is not None:
        lapped(env, plan.iteration.steps, lap)
    train = {"rl_games": rl_games, "rsl_rl": rsl_rl, "skrl": skrl}[row.library]
    try:
        return train(options, env, iterations, folder)
    finally:
        dist.destroy_process_group()


def environments(num_envs: int) -> Any:
    """Make this rank's environments."""
    import gymnasium
    import torch.distributed as dist

    import rltrain_gymnasium.registration  # noqa: F401 - registers the tasks with gymnasium
    from rltrain.metrics.environment import CountedEnv

    made = gymnasium.make_vec(TASK, num_envs=num_envs, framework="torch", device="cpu")
    return CountedEnv(made, seed=dist.get_rank())


def rl_games(options: dict[str, Any], made: Any, iterations: int, folder: str) -> Ends:
    """Train with rl_games' own runner and agent."""
    import torch.distributed as dist
    from rl_games.algos_torch.a2c_continuous import A2CAgent
    from rl_games.torch_runner import Runner

    from rltrain_rl_games.run.env import RlGamesEnv

    rank, world_size = dist.get_rank(), dist.get_world_size()

    class Agent(A2CAgent):  # type: ignore[misc]
        def __init__(self, base_name: str, params: dict[str, Any]) -> None:
            if rank:  # As the replaced startup does on all ranks but the first.
                params["config"].update(print_stats=False, lr_schedule=None)
            super().__init__(base_name, params)
            self.multi_gpu, self.world_size = True, world_size
            # With local rank -1, selecting the CUDA device does nothing, so no GPU is needed.
            self.global_rank, self.local_rank = rank, -1

    env = RlGamesEnv(made)
    options["params"].update(seed=1 + rank, torch_threads=1)
    options["params"]["config"].update(
        name="native",
        env_name="any",
        reward_shaper={},
        num_actors=made.num_envs,
        env_info=env.get_env_info(),
        vec_env=env,
        device="cpu",
        torch_compile=False,
        max_epochs=iterations,
        train_dir=f"{folder}/{rank}",
    )
    runner = Runner()
    runner.load_config(options["params"])
    agent = Agent(base_name="run", params=runner.params)
    agent.train()
    return ends({"model": agent.model}, [agent.last_lr])


def rsl_rl(options: dict[str, Any], made: Any, iterations: int, folder: str) -> Ends:
    """Train with rsl_rl's own runner."""
    import torch.distributed as dist
    from rsl_rl.runners import OnPolicyRunner

    from rltrain_rsl_rl.run.env import RslRlEnv

    class NativeRunner(OnPolicyRunner):  # type: ignore[misc]
        def _configure_multi_gpu(self) -> None:
            self.is_distributed = True
            self.gpu_world_size = dist.get_world_size()
            self.gpu_global_rank = self.gpu_local_rank = dist.get_rank()
            self.cfg["multi_gpu"] = {
                "global_rank": dist.get_rank(),
                "local_rank": dist.get_rank(),
                "world_size": dist.get_world_size(),
            }

    options["obs_groups"] = {"actor": ["policy"], "critic": ["policy"]}
    runner = NativeRunner(RslRlEnv(made, "cpu"), options)
    runner.learn(iterations)
    models = {"actor": runner.alg.actor, "critic": runner.alg.critic}
    return ends(models, [runner.alg.learning_rate])


def skrl(options: dict[str, Any], made: Any, iterations: int, folder: str) -> Ends:
    """Train with skrl's own runner, agent and models."""
    import torch.distributed as dist

    from rltrain.types import World
    from rltrain_skrl.run import bootstrap

    world = World(dist.get_rank(), dist.get_rank(), 0, dist.get_world_size())
    with bootstrap.configured(world):
        from skrl.utils.runner.torch import Runner

        from rltrain_skrl.run.torch.env import SkrlEnv

        options["seed"] = 1
        options["agent"]["experiment"] = {"write_interval": 0, "checkpoint_interval": 0}
        options["trainer"] |= {
            "timesteps": iterations * options["agent"]["rollouts"],
            "headless": True,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
        }
        runner = Runner(SkrlEnv(made, "cpu", "episode"), options)
        runner.run("train")
    modules = dict(runner.agent.checkpoint_modules)
    optimizer = modules.pop("optimizer")
    models = {name: module for name, module in modules.items() if hasattr(module, "state_dict")}
    return ends(models, [group["lr"] for group in optimizer.param_groups])


def ends(models: Mapping[str, Any], rates: list[Any]) -> Ends:
    """Return a rank's final values, for the comparison."""
    parameters, normalizers = {}, {}
    for role, model in models.items():
        trained = dict(model.named_parameters()) if hasattr(model, "named_parameters") else {}
        for name, value in model.state_dict().items():
            if hasattr(value, "double"):
                kind = parameters if name in trained else normalizers
                kind[f"{role}.{name}"] = value.detach().double().numpy().copy()
    return {
        "parameters": parameters,
        "normalizers": normalizers,
        "rates": [float(x) for x in rates],
    }


def difference(ranks: list[Ends], kind: str) -> str:
    """Return the largest difference between ranks."""
    import numpy as np

    values = [rank[kind] for rank in ranks]
    if kind == "rates":
        values = [dict(enumerate(each)) for each in values]
    worst = max(
        float(np.max(np.abs(np.asarray(other[name]) - values[0][name]), initial=0.0))
        for other in values[1:]
        for name in values[0]
    )
    return "0" if worst == 0 else f"{worst:.2g}"


def run_rank(how: str, row: Row, iterations: int, folder: str) -> Ends:
    """Run one rank of either training."""
    return (native if how == "native" else adapted)(row, iterations, folder)


def measure(how: str, row: Row, iterations: int, ranks: int) -> list[str]:
    """Train one row on real processes; return the three differences, or how it failed."""
    results = on_ranks(run_rank, ranks, how, row, iterations)
    if isinstance(results, str):
        return [results] * 3
    return [difference(results, kind) for kind in ("parameters", "normalizers", "rates")]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", action="append")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=2)
    arguments = parser.parse_args()
    print(f"{arguments.ranks} ranks, {NUM_ENVS} environments each, {TASK}, ", end="")
    print(f"after {arguments.iterations} iterations\n")
    print("| library | options | through | parameters | normalizers | learning rate |")
    print("|---|---|---|---|---|---|", flush=True)
    wrong = False
    for row in ROWS:
        if arguments.library and row.library not in arguments.library:
            continue
        for how in ("native", "rltrain"):
            differences = measure(how, row, arguments.iterations, arguments.ranks)
            wrong |= how == "rltrain" and differences != ["0"] * 3
            print(f"| {row.library} | {row.what} | {how} | {' | '.join(differences)} |", flush=True)
    if wrong:
        sys.exit("Ranks of rltrain differ.")


if __name__ == "__main__":
    main()

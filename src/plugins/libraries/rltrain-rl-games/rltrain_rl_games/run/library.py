"""The library plugin: it runs rl_games' own runner with the agents of this package."""

from __future__ import annotations

import copy
from typing import Any

from rl_games.torch_runner import Runner

from rltrain import hookimpl
from rltrain.launch import private_folder
from rltrain.session import Session
from rltrain.types import TrainResult
from rltrain_rl_games.policy.policy import RlGamesPolicy, load_policy
from rltrain_rl_games.run.agents import ContinuousAgent, DiscreteAgent
from rltrain_rl_games.run.env import adapted_env
from rltrain_rl_games.run.metrics import LogObserver
from rltrain_rl_games.run.networks import register_network
from rltrain_rl_games.run.sac import SacAgent
from rltrain_rl_games.run.upstream import set_missing_defaults

_AGENTS = {"a2c_continuous": ContinuousAgent, "a2c_discrete": DiscreteAgent, "sac": SacAgent}


class RlGamesLibrary:
    """Trains policies with rl_games."""

    @hookimpl
    def rltrain_train(self, session: Session) -> TrainResult:
        """Run rl_games until its epochs are done."""
        register_network()
        observer = LogObserver()
        runner = Runner(observer)
        for name, agent in _AGENTS.items():
            # Bound as a default argument: a plain closure would always use the last agent.
            runner.algo_factory.register_builder(
                name, lambda agent=agent, **arguments: agent(session, **arguments)
            )
        # rl_games creates folders and an event file on every rank. The run does not need them.
        with private_folder() as scratch:
            runner.load_config(_params(session, str(scratch)))
            checkpoint = str(session.checkpoint) if session.checkpoint else None
            runner.run_train({"train": True, "checkpoint": checkpoint})
        return session.result(limit=observer.limit)

    @hookimpl
    def rltrain_load_policy(self, session: Session) -> RlGamesPolicy:
        """Load what one of this package's or rl_games' own agents has saved."""
        register_network()
        return load_policy(session)


def _params(session: Session, scratch: str) -> dict[str, Any]:
    """Return rl_games' options, completed by those of the run."""
    params: dict[str, Any] = copy.deepcopy(dict(session.config.agent["params"]))
    config = params["config"]
    env = adapted_env(session.env, params)
    if session.config.max_iterations is not None:
        config["max_epochs"] = session.config.max_iterations
    config.setdefault("env_name", session.config.task)
    config.setdefault("name", session.config.task.replace("/", "-"))
    config.setdefault("reward_shaper", {})
    set_missing_defaults(config)
    # On a CPU, compilation takes longer than most runs, and needs a C++ compiler.
    config.setdefault("torch_compile", session.world.device != "cpu")
    config.update(
        num_actors=session.env.num_envs,
        env_info=env.get_env_info(),
        vec_env=env,
        device=session.world.device,
        device_name=session.world.device,
        multi_gpu=False,
        train_dir=scratch,
        full_experiment_name="run",
        print_stats=False,
    )
    params["seed"] = session.seeds.model
    # The backend has set the threads of this rank. rl_games would use all of the machine.
    params.setdefault("torch_threads", 0)
    return params

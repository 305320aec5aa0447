"""The two updates that a claim of jax compares: on N ranks, and on one rank with all their data.

Run as a script, it is one rank of several real ones.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from claims_jax import JAX, JaxClaim
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from rltrain.files.dotted import set_dotted
from rltrain.run.group import SingleProcess
from rltrain.seeding import SeedPlan
from rltrain.testing import FakeWorld, make_config
from rltrain.types import ProcessGroup, TaskInfo, World
from rltrain_devkit.as_one.alike import State
from rltrain_skrl.declare.options import default_agent, in_jax
from rltrain_skrl.run import bootstrap

PLACE = ["skrl:config.torch", "skrl:config.jax"]
UPDATES = 2
STEPS = 16

ACTIONS: dict[str, spaces.Space[Any]] = {
    "continuous": spaces.Box(-1.0, 1.0, (2,)),
    "discrete": spaces.Discrete(3),
    "multi_discrete": spaces.MultiDiscrete([2, 3]),
}


class Rollout:
    """The recorded data of all ranks' environments: (steps, ranks, num_envs, ...)."""

    def __init__(self, claim: JaxClaim, ranks: int, number: int) -> None:
        draw = np.random.default_rng(number)
        shape = (STEPS, ranks, claim.num_envs)
        # Each rank sees different data: one rank's own moments would be far off.
        shift = np.linspace(-1.0, 1.0, ranks)[:, None, None] + number
        self.observations = (draw.normal(size=(*shape, 3)) + shift).astype(np.float32)
        self.states = (draw.normal(size=(*shape, 4)) - shift).astype(np.float32)
        self.rewards = (draw.normal(size=(*shape, 1)) + shift).astype(np.float32)
        self.terminated = (draw.random((*shape, 1)) < 0.1).astype(np.int8)
        self.truncated = ((draw.random((*shape, 1)) < 0.1) & (self.terminated == 0)).astype(np.int8)
        self.next_observations = np.roll(self.observations, -1, axis=0)
        self.next_states = np.roll(self.states, -1, axis=0)
        space = ACTIONS[claim.action]
        if isinstance(space, spaces.Box):
            self.actions = draw.uniform(-1, 1, (*shape, 2)).astype(np.float32)
        else:
            choices = np.atleast_1d(getattr(space, "nvec", getattr(space, "n", 0)))
            self.actions = draw.integers(0, choices, (*shape, len(choices))).astype(np.float32)

    def of(self, ranks: list[int]) -> Callable[[str, int], np.ndarray]:
        return lambda name, step: np.concatenate([getattr(self, name)[step, r] for r in ranks])


class Partition:
    """The rows that each rank draws, in the place of a memory's own; those of all in one batch."""

    def __init__(self, memory: Any, ranks: list[int], num_envs: int) -> None:
        self.memory, self.ranks, self.num_envs = memory, ranks, num_envs
        self.draws = [np.random.default_rng(100 + rank) for rank in ranks]

    def sample(
        self, names: list[str], *, batch_size: int, mini_batches: int = 1, sequence_length: int = 1
    ) -> Any:
        total, rows = len(self.ranks) * self.num_envs, len(self.memory) // len(self.ranks)
        own = []
        for place, draw in enumerate(self.draws):
            index = draw.permutation(rows)[: batch_size // len(self.ranks)]
            whole = index // self.num_envs * total + place * self.num_envs + index % self.num_envs
            own.append(np.array_split(whole, mini_batches))
        joined = np.concatenate([np.concatenate(parts) for parts in zip(*own, strict=True)])
        return self.memory.sample_by_index(names, indexes=joined, mini_batches=mini_batches)


class Updated(NamedTuple):
    """What a rank has learned after each update."""

    states: list[State]

    @property
    def last(self) -> State:
        return self.states[-1]


class Still(VectorEnv[Any, Any, Any]):
    """Only spaces: a claim learns from recorded data."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    render_mode = None

    def __init__(self, claim: JaxClaim, num_envs: int) -> None:
        self.num_envs = num_envs
        self.single_action_space = ACTIONS[claim.action]
        box = spaces.Box(-9.0, 9.0, (3,))
        groups = spaces.Dict({"policy": box, "critic": spaces.Box(-9.0, 9.0, (4,))})
        self.single_observation_space = groups if claim.critic else box


class Learner:
    """The session of one rank, as far as the adapter asks it for an update."""

    checkpoint = rank_state = None
    resuming_exactly = should_stop = should_save = False

    def __init__(
        self, claim: JaxClaim, group: ProcessGroup, num_envs: int, times: int, off_by: Any
    ) -> None:
        self.off_by = off_by
        self.world = World(rank=group.rank, world_size=group.world_size)
        self.group = group
        task = TaskInfo("none", claim.action, num_envs=64)  # type: ignore[arg-type]
        agent: Any = in_jax(default_agent(task, claim.algorithm))
        for name, value in claim.agent.items():
            set_dotted(agent, name, value)
        if "batch_size" in agent["agent"]:
            agent["agent"]["batch_size"] *= times
        self.config = make_config(library="skrl", framework="jax", agent=agent, headless=True)
        self.seeds = SeedPlan(7, group.rank)
        self.env = Still(claim, num_envs)

    def seed(self, stream: Any) -> None: ...  # All randomness comes from the adapter's keys.

    def watch(self, role: str, fingerprints: Any) -> None: ...  # Only final states are checked.

    def wrap_model(self, model: Any, role: str) -> Any:
        """Keep the model, because every rank builds the same; but for a rounding, if asked."""
        import jax

        def rounded(x: Any) -> Any:
            x = self.group.broadcast(x)
            if self.off_by is None:
                return x
            return (x * (1 + 1e-7 * self.off_by.normal(size=x.shape))).astype(x.dtype)

        return jax.tree.map(rounded, model)

    def gradient_sync(self, parameters: Any, *, extras: int = 0, may_overflow: bool = False) -> Any:
        from rltrain_jax.gradients import TreeSync

        return TreeSync(self.group, parameters)

    def iterations_left(self, total: int, done: int) -> int:
        return total - done


def learn(
    claim: JaxClaim, group: ProcessGroup, ranks: list[int], all_ranks: int, off_by: Any = None
) -> Updated:
    num_envs = claim.num_envs * len(ranks)
    session = Learner(claim, group, num_envs, len(ranks), off_by)
    states = []
    with bootstrap.configured(session.world, "jax"):
        # It imports skrl, which otherwise reads the variables of a rank.
        from jax_noise import by_rows, of_ranks

        from rltrain_skrl.run.jax.runner import SessionRunner

        agent = SessionRunner(session).agent  # type: ignore[arg-type]
        agent.enable_training_mode(True)
        by_rows(agent.models)
        of_ranks(agent, [SeedPlan(7, rank).learner for rank in ranks])
        partition = Partition(agent.memory, ranks, claim.num_envs)
        agent.memory.sample = partition.sample
        for update in range(UPDATES):
            fill(agent, Rollout(claim, all_ranks, update).of(ranks), claim)
            agent.update(timestep=update, timesteps=UPDATES)
            states.append(learned(agent))
    return Updated(states)


def learned(agent: Any) -> State:
    """Return all that a checkpoint of an agent would have, by path."""
    import jax

    parts = {name: agent._get_internal_value(x) for name, x in agent.checkpoint_modules.items()}
    leaves, _ = jax.tree_util.tree_flatten_with_path(jax.device_get(parts))
    return {jax.tree_util.keystr(path): np.array(leaf) for path, leaf in leaves}


def fill(agent: Any, row: Callable[[str, int], np.ndarray], claim: JaxClaim) -> None:
    """Store a rollout as if the agent had made it, with its own probabilities and values."""
    import jax.numpy as jnp

    def at(name: str, step: int) -> Any:
        return jnp.asarray(row(name, step))

    for step in range(STEPS):
        states = at("states", step) if claim.critic else None
        if "log_prob" in agent.memory.tensors:
            observations = at("observations", step)
            agent.act(observations, states, timestep=0, timesteps=1)
            inputs = {
                "observations": agent._observation_preprocessor(observations),
                "states": agent._state_preprocessor(states),
                "taken_actions": at("actions", step),
            }
            # The recorded actions, not new samples.
            agent._current_log_prob = agent.policy.act(inputs, role="policy")[1]["log_prob"]
        names = ("observations", "actions", "rewards", "next_observations", "terminated")
        agent.record_transition(
            **{name: at(name, step) for name in names},
            truncated=at("truncated", step),
            states=states,
            next_states=at("next_states", step) if claim.critic else None,
            infos={},
            timestep=0,
            timesteps=1,
        )


def split_update(
    claim: JaxClaim, ranks: int, wrap: Callable[[ProcessGroup], Any] = lambda group: group
) -> list[Updated]:
    """Learn on the ranks of a fake world; return what each learned."""
    world = FakeWorld(ranks, rank_local=PLACE)
    return world.run(lambda group: learn(claim, wrap(group), [group.rank], ranks))


def whole_update(claim: JaxClaim, ranks: int, off_by: np.random.Generator | None = None) -> Updated:
    """Learn on one rank from all ranks' data; `off_by` draws roundings of its initial weights."""
    world, everyone = FakeWorld(1, rank_local=PLACE), list(range(ranks))
    (run,) = world.run(lambda _: learn(claim, SingleProcess("cpu"), everyone, ranks, off_by))
    return run


class JaxAgain(NamedTuple):
    """Runs of a claim that tell rounding from faults."""

    claim: JaxClaim
    ranks: int

    def control(self, seed: int) -> Updated:
        return whole_update(self.claim, self.ranks, np.random.default_rng(seed))

    def in_float64(self) -> None:
        """Nothing: the adapter gives skrl float32."""


def main(name: str, file: str) -> None:
    from rltrain.config import Placement
    from rltrain.ranks.world import rank_from_env
    from rltrain_jax.backends import JaxBackend

    (claim,) = [claim for claim in JAX if str(claim) == name]
    world = rank_from_env(os.environ)
    assert world is not None
    config = Placement(backend="jax")
    group = JaxBackend().rltrain_init_distributed(world=world, config=config)
    run = learn(claim, group, [group.rank], group.world_size)
    Path(file).write_bytes(pickle.dumps(run.states))
    group.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

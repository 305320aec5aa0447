"""The library plugin: PPO in plain jax on a session."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rltrain import hookimpl
from rltrain.errors import UsageError, explain_mismatch
from rltrain.policy import PolicyModule
from rltrain.records import Scalars
from rltrain.session import Session
from rltrain.types import ArrayInfo, TrainResult
from rltrain_jax.moments import pool_moments
from rltrain_jax.trees import watch_tree
from rltrain_jax_ppo import ppo

__all__ = ["JaxPpoLibrary"]


class JaxPpoLibrary:
    """Trains with `ppo`."""

    @hookimpl
    def rltrain_train(self, session: Session) -> TrainResult:
        """Train on this rank until the iterations are done or the session stops the run.

        Raises:
            UsageError: the task's observations are not vectors.
        """
        options = session.config.agent
        params = _init(session)
        learned, done = (params, ppo.adam_state(params)), 0
        if session.checkpoint is not None:  # On every rank, not only on rank 0.
            learned, done = _load(session.checkpoint, learned)
        # Every rank starts from rank 0's state; what a step leaves is compared over ranks.
        learned = (session.wrap_model(learned[0], "policy"), learned[1])
        watch_tree(session, "policy", lambda: learned[0])  # By the role in which it was wrapped.
        watch_tree(session, "optimizer", lambda: learned[1])
        sync = session.gradient_sync(learned[0])
        session.seed("learner")
        key = jax.random.key(session.seeds.learner)
        if session.rank_state is not None and session.resuming_exactly:
            key = jax.random.wrap_key_data(jnp.asarray(session.rank_state))

        observations, _ = session.env.reset()  # Without a seed: the session adds this rank's.
        last = done + session.iterations_left(options["iterations"], done)
        for iteration in range(done + 1, last + 1):
            batch, observations, key = _collect(session, learned[0], observations, key)
            batch = ppo.prepare(learned[0], batch, options["gamma"], options["lam"])
            batch["advantages"] = _normalized(session, batch["advantages"])
            for _ in range(options["epochs"]):
                loss, gradient = ppo.gradients(learned[0], batch, options["clip"])
                # Averaged before it is clipped, and outside of what is compiled.
                gradient = sync(gradient)
                rate, bound = options["learning_rate"], options["max_grad_norm"]
                learned = ppo.adam_step(*learned, gradient, rate, bound)
            # On every rank: values are merged over ranks, and rank 0 writes.
            over = session.end_iteration(
                Scalars(iteration, {"loss": float(loss)}, iterations=last),
                f"{iteration}.npz",
                functools.partial(_write, learned, iteration),
                due=iteration % options["save_interval"] == 0,
                rank_state=functools.partial(_own_state, key),
            )
            if over:  # Equal on all ranks.
                break
        return session.result()

    @hookimpl
    def rltrain_load_policy(self, session: Session) -> JaxPpoPolicy:
        """Load a trained policy.

        Raises:
            UsageError: the checkpoint does not fit the options or the task.
        """
        assert session.checkpoint is not None, "the caller names a checkpoint"
        params = _init(session)
        (params, _), _ = _load(session.checkpoint, (params, ppo.adam_state(params)))
        return JaxPpoPolicy(params, jax.random.key(session.seeds.learner))


class JaxPpoPolicy:
    """A trained policy, as it acts."""

    groups: tuple[str, ...] = ("policy",)

    def __init__(self, params: ppo.Params, key: jax.Array) -> None:
        self._params, self._key = params, key

    def act(self, observations: jax.Array, deterministic: bool = True) -> Any:
        """Choose actions."""
        if deterministic:
            return ppo.mean_actions(self._params, observations)
        self._key, own = jax.random.split(self._key)
        return ppo.act(self._params, observations, own)

    def reset(self, done: Any = None) -> None:
        """Do nothing: the policy is not recurrent."""

    def module(self) -> PolicyModule:
        """Return what is exported."""
        layers = self._params["policy"]
        return PolicyModule(
            function=lambda observations: (ppo.mean_actions(self._params, observations),),
            inputs={"policy": ArrayInfo((layers[0][0].shape[0],))},
            output=ArrayInfo((layers[-1][0].shape[1],)),
        )


def _init(session: Session) -> ppo.Params:
    spaces = session.env.single_observation_space, session.env.single_action_space
    if any(len(space.shape or ()) != 1 for space in spaces):
        raise UsageError(
            f"--task {session.config.task}: its observations are {spaces[0]}, but jax_ppo learns "
            "only from vectors. Choose another task."
        )
    observations, actions = (space.shape[0] for space in spaces if space.shape)
    key, hidden = jax.random.key(session.seeds.model), session.config.agent["hidden"]
    return ppo.init(key, observations, actions, hidden)


def _collect(
    session: Session, params: ppo.Params, observations: jax.Array, key: jax.Array
) -> tuple[ppo.Batch, jax.Array, jax.Array]:
    """Step the environments; return the rollout, the next observations, and the next key."""
    rows = []
    for _ in range(session.config.agent["steps"]):
        key, own = jax.random.split(key)  # As the policy that is loaded does.
        actions = ppo.act(params, observations, own)
        following, rewards, terminations, truncations, info = session.env.step(actions)
        # Environments reset at once: after an end, `following` belongs to the next episode.
        reached = following
        if "final_obs" in info:
            reached = jnp.where(info["_final_obs"][:, None], info["final_obs"], following)
        rows.append((observations, actions, rewards, reached, terminations, truncations))
        observations = following
    names = ("observations", "actions", "rewards", "reached", "terminations", "truncations")
    batch = dict(zip(names, map(jnp.stack, zip(*rows, strict=True)), strict=True))
    batch["ends"] = batch["terminations"] | batch.pop("truncations")
    return batch, observations, key


def _normalized(session: Session, advantages: jax.Array) -> Any:
    """Return the advantages with the mean and variance of all ranks' data taken out."""
    [moments] = pool_moments(session.group, [(advantages.reshape(-1), jnp.zeros(()))])
    return (advantages - float(moments.mean)) / (float(moments.variance) ** 0.5 + 1e-6)


def _write(learned: Any, iteration: int, path: Path) -> None:
    """Write a checkpoint, which rank 0 does."""
    leaves = {f"leaf_{number}": leaf for number, leaf in enumerate(jax.tree.leaves(learned))}
    with path.open("wb") as file:  # Of a name, numpy changes the suffix.
        np.savez(file, iteration=np.array(iteration), **jax.tree.map(np.asarray, leaves))


def _own_state(key: jax.Array) -> np.ndarray:
    """Return what this rank needs to resume exactly."""
    return np.asarray(jax.random.key_data(key))


def _load(path: Path, like: Any) -> tuple[Any, int]:
    """Return what was saved, as a tree like another, and the iterations done.

    Raises:
        UsageError: the file does not fit.
    """
    leaves, structure = jax.tree.flatten(like)
    with explain_mismatch(path), np.load(path) as saved:
        found = [saved[f"leaf_{number}"] for number in range(len(leaves))]
        if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in found]:
            raise ValueError("the sizes of the layers differ")
        return jax.tree.unflatten(structure, map(jnp.asarray, found)), int(saved["iteration"])

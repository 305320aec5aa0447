"""Inference with a trained rl_games agent: see `rltrain.policy`."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Iterator
from typing import Any

import torch
from gymnasium import spaces

from rltrain.errors import explain_mismatch
from rltrain.policy import PolicyModule
from rltrain.session import Session
from rltrain_rl_games.policy.actor import Actor, States, build_actor
from rltrain_rl_games.policy.export import policy_module
from rltrain_rl_games.run.checkpoints import check_algorithm
from rltrain_rl_games.run.env import adapted_env
from rltrain_rl_games.run.upstream import without_compiled_names
from rltrain_torch.policy import groups_of, read_checkpoint


class RlGamesPolicy:
    """Acts as the agent in training, bit for bit where that is not compiled (`torch_compile`).

    Where a file says `zero_rnn_on_done: false`, training keeps recurrent states through the ends of
    episodes. Here an episode always begins without, as when rl_games plays. The random actions of
    SAC's warm-up are not the policy's: it samples from the model from the first step on.

    Args:
        actor: in evaluation mode, on the session's device.
        space: of one environment's observations.
    """

    def __init__(self, actor: Actor, space: spaces.Space[Any]) -> None:
        self._actor = actor
        self._space = space
        self.groups = actor.conversion.groups("obs")
        self._has_groups = isinstance(space, spaces.Dict)
        self._states: States | None = None

    @torch.no_grad()
    def act(self, observations: Any, deterministic: bool = True) -> torch.Tensor:
        """Choose actions: the most likely, or samples as in training; see `Policy`."""
        if self._states is None:
            first = observations[self.groups[0]] if self._has_groups else observations
            self._states = self._actor.initial_states(len(first))
        actions: torch.Tensor
        with _precision_of_training():
            actions, self._states = self._actor(observations, self._states, deterministic)
        return actions

    def reset(self, done: Any = None) -> None:
        """Forget the recurrent state; see `rltrain.policy.Policy`."""
        if done is None or not self._states:
            self._states = None
            return
        ended = torch.as_tensor(done, dtype=torch.bool, device=self._states[0].device)
        self._states = tuple(state.masked_fill(ended[:, None], 0.0) for state in self._states)

    def module(self) -> PolicyModule:
        """Return what export needs."""
        inputs = groups_of(self._space)
        with _quiet():
            return policy_module(
                self._actor, {name: inputs[name] for name in self.groups}, self._has_groups
            )


def load_policy(session: Session) -> RlGamesPolicy:
    """Load the session's checkpoint; one that does not fit options and task is a `UsageError`."""
    path = session.checkpoint
    assert path is not None, "a policy is loaded from a checkpoint"
    params = copy.deepcopy(dict(session.config.agent["params"]))
    conversion = adapted_env(session.env, params).conversion
    weights = read_checkpoint(path, "cpu", session.config.trust)
    # Initial weights are random, only to be replaced: the generator stays where it is.
    with explain_mismatch(path), _quiet(), torch.random.fork_rng(devices=[]):
        actor = build_actor(params, conversion)
    with explain_mismatch(path):
        check_algorithm(weights, actor.KEYS)
        actor.load_weights(without_compiled_names(weights))
    actor.to(session.world.device).eval().requires_grad_(False)
    return RlGamesPolicy(actor, session.env.single_observation_space)


@contextlib.contextmanager
def _precision_of_training() -> Iterator[None]:
    """Multiply matrices as in training, where rl_games' runner allows TF32 for the process."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _quiet() -> contextlib.AbstractContextManager[Any]:
    """Drop what rl_games prints whenever it builds a network."""
    return contextlib.redirect_stdout(io.StringIO())

"""Combinations that rl_games, or this adapter, cannot train correctly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.config import RunConfig
from rltrain.options import get_dotted
from rltrain.specs import Refusal
from rltrain.types import TaskInfo
from rltrain_rl_games.declare.choices import is_registered
from rltrain_rl_games.declare.options import ALGORITHMS, GROUPS_NETWORK

_CENTRAL = "config.central_value_config"


def _option(config: RunConfig, key: str) -> Any:
    return get_dotted(config.agent, f"params.{key}", None)


def _adapts(config: RunConfig) -> bool:
    return bool(_option(config, "config.lr_schedule") == "adaptive")


def _is_sac(config: RunConfig) -> bool:
    return bool(_option(config, "algo.name") == "sac")


def _other_model(config: RunConfig, task: TaskInfo) -> bool:
    several = bool(_option(config, "model.name") == "multi_discrete_a2c")
    return several != (task.action == "multi_discrete")


def _unknown_network(config: RunConfig, task: TaskInfo) -> bool:
    names = {_option(config, f"{part}.name") for part in ("network", f"{_CENTRAL}.network")}
    return not all(is_registered("network", name, config.task) for name in names - {GROUPS_NETWORK})


def _ignores_images(config: RunConfig, task: TaskInfo) -> bool:
    """Return whether there are images outside `policy` and the options do not choose groups."""
    chosen = _option(config, "env.obs_groups.obs")
    return any(name != "policy" for name in task.images) and not chosen


def _never_adapts(config: RunConfig, task: TaskInfo) -> bool:
    kind = _option(config, "config.schedule_type")
    is_continuous = _option(config, "algo.name") == "a2c_continuous"
    return is_continuous and _adapts(config) and kind not in (None, "legacy", "standard")


def _normalizes_by_batch(config: RunConfig, task: TaskInfo) -> bool:
    """Return whether a network normalizes by the statistics of a batch.

    rl_games' layer_norm of images computes them over all images of a batch. Its plain layers have
    no normalization with any option.
    """
    networks = [_option(config, name) or {} for name in ("network", f"{_CENTRAL}.network")]
    return config.on_several_ranks and any(_has_batch_norm(network) for network in networks)


def _has_batch_norm(network: Mapping[str, Any]) -> bool:
    kind, deep = network.get("normalization"), (network.get("mlp") or {}).get("d2rl")
    return kind in ("batch_norm", "layer_norm") and bool(
        network.get("cnn") or (deep and kind == "batch_norm")
    )


def _critic_schedule_without_end(config: RunConfig, task: TaskInfo) -> bool:
    last = config.max_iterations or _option(config, "config.max_epochs")
    linear = _option(config, f"{_CENTRAL}.lr_schedule") == "linear"
    return linear and last in (None, -1)


def _only_critic_recurrent(config: RunConfig, task: TaskInfo) -> bool:
    recurrent = _option(config, f"{_CENTRAL}.network.rnn") is not None
    return recurrent and _option(config, "network.rnn") is None


REFUSALS = (
    Refusal(
        "params.algo.name that rl_games does not have",
        # It may be a list, which a mapping would not look up.
        lambda config, task: _option(config, "algo.name") not in tuple(ALGORITHMS),
        "rltrain runs subclasses of rl_games' PPO and SAC, and has none of another algorithm.",
        "a2c_continuous or a2c_discrete, which are its names for PPO, or sac.",
        "params.algo.name",
    ),
    Refusal(
        "params.model.name that no module registers",
        lambda config, task: not is_registered("model", _option(config, "model.name"), config.task),
        "rl_games has no model of that name, and neither has the task's module.",
        "a model of rl_games', or give --task MODULE:NAME with a module that calls rl_games' "
        "register_model.",
        "params.model.name",
    ),
    Refusal(
        "params.network.name that no module registers",
        _unknown_network,
        "rl_games has no network of that name, and neither has the task's module.",
        "actor_critic, or give --task MODULE:NAME with a module that calls rl_games' "
        "register_network.",
        "params.network.name",
    ),
    Refusal(
        "params.algo.name for other actions",
        lambda config, task: task.action not in ALGORITHMS[_option(config, "algo.name")],
        "the task's actions are of another kind than the agent's.",
        "a2c_continuous or sac for continuous actions, a2c_discrete for discrete ones.",
        "params.algo.name",
    ),
    Refusal(
        "params.model.name for other actions",
        _other_model,
        "one model chooses one discrete action, the other several at a time.",
        "multi_discrete_a2c, with params.network.space.multi_discrete, for MultiDiscrete actions "
        "and no others.",
        "params.model.name",
    ),
    Refusal(
        "SAC of images",
        lambda config, task: _is_sac(config) and task.has_images,
        "rl_games' SAC reads only vectors.",
        "--algorithm ppo, whose network has convolutions (params.network.cnn).",
    ),
    Refusal(
        "params.network.mlp.d2rl for SAC",
        lambda config, task: _is_sac(config) and bool(_option(config, "network.mlp.d2rl")),
        "rl_games' SAC cannot build such a network.",
        "leave it out.",
    ),
    Refusal(
        "params.network.separate: false for SAC",
        lambda config, task: _is_sac(config) and _option(config, "network.separate") is False,
        "rl_games' SAC then has no critic.",
        "leave it out.",
    ),
    Refusal(
        "images outside the group `policy`, and no params.env.obs_groups",
        _ignores_images,
        "the actor would see only the group `policy`.",
        "leave --agent-config out; or give params.env.obs_groups.obs, a list of groups, with "
        f"concate_obs_groups: false and params.network.name: {GROUPS_NETWORK}.",
    ),
    Refusal(
        f"params.network.name {GROUPS_NETWORK} without cnn",
        lambda config, task: (
            _option(config, "network.name") == GROUPS_NETWORK and not _option(config, "network.cnn")
        ),
        "it encodes each image by the convolutions of params.network.cnn.",
        "give params.network.cnn, or the name actor_critic.",
    ),
    Refusal(
        "params.config.schedule_type with lr_schedule adaptive",
        _never_adapts,
        "rl_games' continuous agent knows legacy and standard; with any other value, its learning "
        "rate never changes.",
        "standard, which adapts it once per mini-epoch.",
    ),
    Refusal(
        "params.config.lr_schedule adaptive without kl_threshold",
        lambda config, task: _adapts(config) and _option(config, "config.kl_threshold") is None,
        "it keeps the KL divergence of an update near kl_threshold, for which rl_games has no "
        "default.",
        "params.config.kl_threshold=0.008.",
    ),
    Refusal(
        "params.model.name continuous_a2c",
        lambda config, task: _option(config, "model.name") == "continuous_a2c",
        "during the rollout, rl_games' model fails: it returns an entropy that it did not compute.",
        "continuous_a2c_logstd, whose network returns the logarithm of the standard deviation.",
    ),
    Refusal(
        "params.network.normalization on several ranks",
        _normalizes_by_batch,
        "batch_norm, and rl_games' layer_norm of images, normalize by one rank's mini-batch.",
        "leave it out, use layer_norm for a network without images, or train on one rank.",
    ),
    Refusal(
        "params.config.central_value_config with lr_schedule linear and no end",
        _critic_schedule_without_end,
        "its schedule depends on the last epoch: without one, it begins at the lowest rate.",
        "--max-iterations.",
    ),
    Refusal(
        "params.config.central_value_config with a recurrent critic alone",
        _only_critic_recurrent,
        "rl_games keeps the critic's recurrent states only where the actor has some.",
        "params.network.rnn for the actor too.",
    ),
    Refusal(
        "params.config.use_action_masks",
        lambda config, task: bool(_option(config, "config.use_action_masks")),
        "rltrain's environments give no masks.",
        "leave it out.",
    ),
    Refusal(
        "params.config.population_based_training",
        lambda config, task: bool(_option(config, "config.population_based_training")),
        "rl_games trains a population as separate jobs, which the run folder cannot hold.",
        "rltrain sweep --population N, which trains a run per member.",
    ),
    Refusal(
        "params.config.self_play_config",
        lambda config, task: _option(config, "config.self_play_config") is not None,
        "self-play swaps opponents by rank 0's results alone.",
        "leave it out.",
    ),
    Refusal(
        "params.config.max_steps",
        lambda config, task: (_option(config, "config.max_steps") or -1) > 0,
        "rl_games passes it to numpy as an axis, which fails.",
        "params.config.max_frames, which has the same meaning.",
    ),
    Refusal(
        "params.config.normalize_rms_advantage",
        lambda config, task: bool(_option(config, "config.normalize_rms_advantage")),
        "rl_games fails on it with a TypeError (its pull request 365).",
        "params.config.normalize_advantage.",
    ),
)

"""The defaults, and options that rl_games' files have for other programs or versions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.options import get_dotted, load_yaml, overlaid
from rltrain.specs import Ignored
from rltrain.types import TaskInfo
from rltrain_adapters import MANY_ENVS

ALGORITHMS = {
    "a2c_continuous": ("continuous",),
    "a2c_discrete": ("discrete", "multi_discrete"),
    "sac": ("continuous",),
}
"""By name of an agent, the kinds of actions that it has."""

CENTRAL = "params.config.central_value_config"

GROUPS_NETWORK = "actor_critic_groups"
"""Name, in the options, of this package's network for several observation groups; see
`rltrain_rl_games.run.networks`."""

RESTORED = {
    "params.config.learning_rate": ("optimizer.lr", "last_lr"),
    "params.config.weight_decay": ("optimizer.weight_decay",),
    "params.config.entropy_coef": ("entropy_coef",),
    f"{CENTRAL}.learning_rate": ("central_value_net.optimizer.lr", "central_value_net.lr"),
    f"{CENTRAL}.weight_decay": ("central_value_net.optimizer.weight_decay",),
    "params.config.actor_lr": ("actor_optimizer.lr",),
    "params.config.actor_betas*": ("actor_optimizer.betas",),
    "params.config.critic_lr": ("critic_optimizer.lr",),
    "params.config.critic_betas*": ("critic_optimizer.betas",),
    "params.config.alpha_lr": ("log_alpha_optimizer.lr",),
    "params.config.alphas_betas*": ("log_alpha_optimizer.betas",),
    "params.config.init_alpha": ("log_alpha.data",),
    "params.network.space.continuous.sigma_init.val": ("model.a2c_network.sigma.data",),
}
"""Options that a checkpoint holds too, and where an agent has them; see `as_given`."""

_DEFAULTS = Path(__file__).parent.parent / "defaults"

_RESUME = "A new run starts from --checkpoint PATH; --resume RUN continues a run."
_FOLDER = Ignored(
    "The folder of a run is --log-root, and part of its name --run-name.", if_typed=True
)
_DEVICE = Ignored("Give --device, and --distributed for several.", if_typed=True)

_UNREAD = {
    "load_checkpoint": Ignored(_RESUME),
    "load_path": Ignored(_RESUME, if_typed=True),
    "config.env_config": Ignored("Give the task's options as env.KEY=VALUE.", ({},)),
    "config.env_name": Ignored("Give --task.", if_typed=True),
    "config.player": Ignored("Give `rltrain play` and `rltrain evaluate` flags.", if_typed=True),
    "config.print_stats": Ignored("Leave the console out by --writer.", if_typed=True),
    **dict.fromkeys(("config.full_experiment_name", "config.train_dir"), _FOLDER),
    **dict.fromkeys(("config.device", "config.device_name", "config.multi_gpu"), _DEVICE),
}


def default_agent(task: TaskInfo, algorithm: str) -> Mapping[str, Any]:
    """Return the options for a task's actions, number of environments and observations."""
    # SAC with other actions is refused later, with the reason.
    action = "continuous" if algorithm == "sac" else task.action
    scale = "" if task.num_envs >= MANY_ENVS else "_few_envs"
    files = (_DEFAULTS / f"{algorithm}_{kind}.yaml" for kind in (f"{action}{scale}", action))
    options = load_yaml(str(next(path for path in files if path.exists())), "the defaults")
    if algorithm != "ppo" or not task.has_images:
        return options
    options = overlaid(options, load_yaml(str(_DEFAULTS / "ppo_images.yaml"), "the defaults"))
    if task.images == ("policy",):
        return options
    of_groups = {
        "env": {
            "obs_groups": {"obs": list(dict.fromkeys(["policy", *task.images]))},
            "concate_obs_groups": False,
        },
        "network": {"name": GROUPS_NETWORK},
        "config": {"normalize_input": "policy" not in task.images},
    }
    return overlaid(options, {"params": of_groups})


def ignored(options: Mapping[str, Any]) -> dict[str, Ignored]:
    """Return the options that rl_games does not read, by key; see `OptionSchema.ignored`."""
    found = {f"params.{key}": each for key, each in _UNREAD.items()}
    config = get_dotted(options, "params.config", None)
    if not isinstance(config, Mapping):
        return found
    if get_dotted(options, "params.network.rnn", None) and config.get("seq_length") is None:
        found["params.config.seq_len"] = Ignored(
            "rl_games calls it seq_length today, and without that it trains with sequences of its "
            "default length."
        )
    if config.get("minibatch_size") is not None:
        found["params.config.minibatch_size_per_env"] = Ignored(
            "minibatch_size, which is given too, comes before it. Leave one of the two out."
        )
    return found

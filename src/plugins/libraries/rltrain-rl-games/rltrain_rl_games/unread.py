"""What rl_games' files say to other programs or versions, and how it is said here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.options import get_dotted
from rltrain.specs import Unread

_RESUME = "A new run starts from --checkpoint PATH, and a run goes on with --resume RUN."
_FOLDER = Unread(
    "The folder of a run is --log-root, and part of its name --run-name.", if_typed=True
)
_DEVICE = Unread("Give --device, and --distributed for several.", if_typed=True)

_UNREAD = {
    "load_checkpoint": Unread(_RESUME),
    "load_path": Unread(_RESUME, if_typed=True),
    "config.env_config": Unread("Give the task's options as env.KEY=VALUE.", ({},)),
    "config.env_name": Unread("Give --task.", if_typed=True),
    "config.player": Unread("Give `rltrain play` and `rltrain evaluate` flags.", if_typed=True),
    "config.print_stats": Unread("Leave the console out by --writer.", if_typed=True),
    **dict.fromkeys(("config.full_experiment_name", "config.train_dir"), _FOLDER),
    **dict.fromkeys(("config.device", "config.device_name", "config.multi_gpu"), _DEVICE),
}


def unread(options: Mapping[str, Any]) -> dict[str, Unread]:
    """Return the options by key; see `LibrarySpec.unread`."""
    found = {f"params.{key}": each for key, each in _UNREAD.items()}
    config = get_dotted(options, "params.config", None)
    if not isinstance(config, Mapping):
        return found
    if get_dotted(options, "params.network.rnn", None) and config.get("seq_length") is None:
        found["params.config.seq_len"] = Unread(
            "rl_games calls it seq_length today, and without that it trains with sequences of its "
            "default length."
        )
    if config.get("minibatch_size") is not None:
        found["params.config.minibatch_size_per_env"] = Unread(
            "minibatch_size, which is given too, comes before it. Leave one of the two out."
        )
    return found

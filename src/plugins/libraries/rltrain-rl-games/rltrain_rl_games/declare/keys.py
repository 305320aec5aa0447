"""The keys that the installed rl_games reads, found in its sources. Does not import rl_games.

rl_games reads its options one by one, and ignores any other in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.options import get_dotted
from rltrain.specs import Keys
from rltrain_adapters.sources import keys_read
from rltrain_rl_games.declare.choices import is_own_network
from rltrain_rl_games.declare.options import ALGORITHMS, CENTRAL, ignored

_AGENTS = tuple(
    f"rl_games.{name}"
    for name in (
        *("torch_runner", "common.a2c_common", "algos_torch.central_value", "algos_torch.models"),
        *("algos_torch.a2c_continuous", "algos_torch.a2c_discrete", "algos_torch.sac_agent"),
    )
)
_NETWORKS = ("rl_games.algos_torch.network_builder", "rl_games.algos_torch.model_builder")
_OF_FILE = frozenset(
    {"algo", "model", "network", "config", "env", "seed", "torch_threads", "rltrain"}
)
_OWN = {
    "params.rltrain": Keys(("save_replay_buffer",)),
    "params.env": Keys(
        ("clip_actions", "clip_observations", "obs_groups", "concate_obs_groups"), open=True
    ),
}
"""Options of this plugin: whether SAC's checkpoints hold every rank's replay buffer, which a
bit-exact resume needs; and those of Isaac Lab for the environment."""

_PARTS = ("", ".mlp", ".cnn", ".rnn", ".space", ".space.continuous", ".space.discrete")
_MORE = frozenset({"torch_compile", "type", "convs", "seq_len", "regularizer"})
"""Those that are read in another way, and what files for older versions have."""


def keys(options: Mapping[str, Any]) -> dict[str, Keys]:
    """Return rl_games' keys by section; see `OptionSchema.keys`."""
    read, of_networks = keys_read(*_AGENTS), keys_read(*_NETWORKS) | _MORE
    if not read or get_dotted(options, "params.algo.name", None) not in ALGORITHMS:
        return {}
    answered = {key.rpartition(".")[2] for key in ignored(options)}
    config = Keys(read | _MORE | answered, open=True)
    found = {"params": Keys(_OF_FILE | answered, open=True), "params.config": config, **_OWN}
    if get_dotted(options, CENTRAL, None):
        found[CENTRAL] = config
    for where in ("params", CENTRAL):
        if is_own_network(get_dotted(options, f"{where}.network.name", None)):
            found |= {f"{where}.network{x}": Keys(of_networks, open=True) for x in _PARTS}
    return found

"""Options that came to rsl_rl after 5.0, refused where the installed one does not know them. Light.

rsl_rl itself would end every rank with an unexpected keyword, or leave the option out in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from packaging.version import Version

from rltrain.errors import UsageError
from rltrain.options import get_dotted
from rltrain_rsl_rl.options import POLICIES

__all__ = ["FIRST", "check_known"]

FIRST = {
    "torch_compile_mode": "5.1",
    "std_range": "5.2",
    "learn_std": "5.2",
    "action_range": "5.3",
    "BetaDistribution": "5.3",
    "use_mixed_precision": "5.5",
}
"""By key, or value of a class_name, the first version that has it."""


def check_known(agent: Mapping[str, Any]) -> None:
    """Check that the installed rsl_rl has everything that options ask for.

    Raises:
        UsageError: it is too old for one of them.
    """
    installed = Version(version("rsl-rl-lib"))
    for option, name in _asked_for(agent):
        if installed < Version(FIRST[name]):
            wanted = f"rsl-rl-lib>={FIRST[name]},<6"
            raise UsageError(
                f"agent.{option}: rsl_rl has it from version {FIRST[name]} on; {installed} is "
                f"installed. Leave it out, or upgrade: pip install '{wanted}'."
            )


def _asked_for(agent: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each option that is given, as the user would write it, and its name in `FIRST`."""
    if agent.get("torch_compile_mode") is not None:
        yield "torch_compile_mode", "torch_compile_mode"
    if "use_mixed_precision" in (agent.get("algorithm") or {}):
        yield "algorithm.use_mixed_precision", "use_mixed_precision"
    for model in POLICIES:
        distribution = get_dotted(agent, f"{model}.distribution_cfg", None)
        if not isinstance(distribution, Mapping):
            continue
        for key in FIRST.keys() & distribution.keys():
            yield f"{model}.distribution_cfg.{key}", key
        kind = str(distribution.get("class_name")).replace(":", ".").rpartition(".")[2]
        if kind in FIRST:
            yield f"{model}.distribution_cfg.class_name={kind}", kind

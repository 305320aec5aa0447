"""Reads one file of a Hydra configuration without the others, such as IsaacGymEnvs' `cfg/train`.

IsaacGymEnvs writes the whole configuration into its run folders, with the references as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["GROUP", "read_alone"]

GROUP = "train"
"""Where the whole configuration has the library's options."""

_OUTSIDE = r"\$\{\.{3,}(?P<name>[A-Za-z_][\w.]*)\}"
"""A reference to what the whole configuration has beside or above the group."""
_CALL = re.compile(
    rf"\$\{{(?:resolve_default:(?P<default>[^,{{}}]*),{_OUTSIDE}"
    rf"|if:{_OUTSIDE.replace('name', 'condition')},(?P<yes>[^,{{}}]*),(?P<no>[^,{{}}]*))\}}"
)
"""What IsaacGymEnvs and OmniIsaacGymEnvs compute in references, by functions of their own: their
`__init__.py` and `hydra_utils.py` register them with OmegaConf."""


def read_alone(text: str, load: Callable[[str], Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a file's options, and by dotted key those that are left out.

    What is not in the file is empty, as if it were not given. An option that would be empty for
    that is left out: the seed of the command line, say, or the task's number of environments.

    Args:
        text: of the file.
        load: returns OmegaConf's configuration of a text.

    Raises:
        omegaconf.errors.OmegaConfBaseException: it refers to something else that is not there.
    """
    from omegaconf import OmegaConf

    config = load(text)
    is_whole = GROUP in config

    def computed(call: re.Match[str]) -> str:
        value = OmegaConf.select(config, call["name"] or call["condition"]) if is_whole else None
        if call["condition"]:
            return str(call["yes"] if value else call["no"])
        return str(call["default"] if value in (None, "") else value)

    without_calls = load(_CALL.sub(computed, text))
    whole = without_calls if is_whole else OmegaConf.create({GROUP: without_calls})
    for reference in re.finditer(_OUTSIDE, text):
        if OmegaConf.select(whole, reference["name"]) is None:
            OmegaConf.update(whole, reference["name"], "", force_add=True)
    written = OmegaConf.to_container(whole, resolve=False)
    found: Any = OmegaConf.to_container(whole, resolve=True)
    if is_whole:
        return found, []
    return found[GROUP], list(_drop_empty(written[GROUP], found[GROUP]))  # type: ignore[index,call-overload]


def _drop_empty(written: Any, found: Any, *keys: str) -> Iterator[str]:
    """Remove from a mapping, and yield by dotted key, what is empty for lack of what it names."""
    for key in list(found) if isinstance(found, dict) else ():
        if found[key] == "" and written[key] != "":
            del found[key]
            yield ".".join((*keys, str(key)))
        else:
            yield from _drop_empty(written[key], found[key], *keys, str(key))

"""What the user gives beside a checkpoint, against what the run that wrote it was given."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from rltrain.files.dotted import get_dotted, leaves, set_dotted
from rltrain.files.secrets import hide
from rltrain.storage.run_options import shortened

if TYPE_CHECKING:
    from rltrain.config import RunConfig


def agent_for_state(config: RunConfig) -> Any:
    """Return the library's options as data, without secrets, for the state of a checkpoint."""
    return json.loads(json.dumps(hide(dict(config.agent)), default=repr))


def given_anew(config: RunConfig, before: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what counts over a checkpoint: by key in `config.agent`, how it is said.

    If the options of the run that wrote it are not known, overrides count, and no file, which may
    well be that run's own.
    """
    now = agent_for_state(config)
    values = {
        key: (get_dotted(before, key, None), get_dotted(now, key, None)) for key in config.given
    }
    return {
        key: f"agent.{key} {f'{shortened(old)} -> ' if before else ''}{shortened(new)}"
        for key, (old, new) in values.items()
        if (old != new if before else config.given[key])
    }


def with_kept(
    config: RunConfig, before: Mapping[str, Any], anew: Collection[str], restored: Collection[str]
) -> RunConfig:
    """Return a run with those options of the run before that it goes on with: numbers, no code.

    What is given `anew` is not among them; see `rltrain.specs.LibrarySpec.restored`.
    """
    agent = copy.deepcopy(dict(config.agent))
    for key, value in leaves(before):
        each = value if isinstance(value, list) else [value]
        kept = key not in anew and any(fnmatchcase(key, pattern) for pattern in restored)
        kept &= all(isinstance(number, (int, float)) for number in each)
        if kept and isinstance(get_dotted(agent, key.rpartition(".")[0]), dict):
            set_dotted(agent, key, value)
    return dataclasses.replace(config, agent=agent)

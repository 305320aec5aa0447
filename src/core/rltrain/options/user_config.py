"""What this user has settled for all of their runs: variables without which ranks cannot talk.

`rltrain doctor --fix` finds and saves them, in a file that is the user's to read and to change:

    environment:
      nccl: {NCCL_P2P_DISABLE: '1'}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.options.files import load_yaml

__all__ = ["path", "save_variables", "saved_variables", "unset"]

_SECTION = "environment"
_HEAD = """\
# Applied to every run of rltrain, by backend. A variable that the environment sets already keeps
# its value. `rltrain doctor --fix` writes this file; change it or delete it as you like.
"""


def path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the file is, or would be."""
    folder = environ.get("XDG_CONFIG_HOME", "")
    # A relative one is to be ignored, says its specification.
    base = Path(folder) if os.path.isabs(folder) else Path(os.path.expanduser("~"), ".config")
    return base / "rltrain" / "config.yaml"


def saved_variables(backend: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that are saved for a backend.

    Raises:
        UsageError: the file does not hold what it must.
    """
    file = path(environ)
    section = _load(file).get(_SECTION) or {}
    wrong = f"{file}: {_SECTION} must hold, for each backend, variables and their values."
    if not isinstance(section, Mapping):
        raise UsageError(wrong)
    variables = section.get(backend) or {}
    if not isinstance(variables, Mapping):
        raise UsageError(wrong)
    return {str(name): str(value) for name, value in variables.items()}


def unset(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return those of the variables that the environment leaves open."""
    return {name: value for name, value in variables.items() if name not in environ}


def save_variables(
    backend: str, variables: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> Path:
    """Save a backend's variables in place of those that were saved, and return the file.

    Raises:
        UsageError: the file cannot be written, or holds what it must not.
    """
    from omegaconf import OmegaConf

    file = path(environ)
    saved_variables(backend, environ)  # What cannot be read is not overwritten.
    content = _load(file)
    content[_SECTION] = {**(content.get(_SECTION) or {}), backend: dict(variables)}
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(_HEAD + OmegaConf.to_yaml(OmegaConf.create(content)))
        os.replace(partial, file)
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}.") from error
    return file


def _load(file: Path) -> dict[str, Any]:
    return load_yaml(str(file), "The file") if file.is_file() else {}

"""This user's settings for all runs: environment variables that ranks need to communicate.

`rltrain doctor --fix` finds them and saves them to a file that the user may edit:

    environment:
      nccl: {NCCL_P2P_DISABLE: '1'}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.files.yaml import load_yaml

__all__ = ["save_variables", "saved_variables", "unset", "user_config_file"]

_SECTION = "environment"
_HEAD = """\
# Applied to every run of rltrain, by backend. A variable that the environment sets already keeps
# its value. `rltrain doctor --fix` writes this file; change it or delete it as you like.
"""


def user_config_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file, which may not exist."""
    folder = environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says to ignore a relative path.
    base = Path(folder) if os.path.isabs(folder) else Path(os.path.expanduser("~"), ".config")
    return base / "rltrain" / "config.yaml"


def saved_variables(backend: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables saved for a backend.

    Raises:
        UsageError: the contents of the file are invalid.
    """
    file = user_config_file(environ)
    section = _load(file).get(_SECTION) or {}
    wrong = f"{file}: {_SECTION} must hold, for each backend, variables and their values."
    if not isinstance(section, Mapping):
        raise UsageError(wrong)
    variables = section.get(backend) or {}
    if not isinstance(variables, Mapping):
        raise UsageError(wrong)
    return {str(name): str(value) for name, value in variables.items()}


def unset(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the environment does not set."""
    return {name: value for name, value in variables.items() if name not in environ}


def save_variables(
    backend: str, variables: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> Path:
    """Save a backend's variables, replacing those saved before, and return the file's path.

    Raises:
        UsageError: the file cannot be written, or its contents are invalid.
    """
    from omegaconf import OmegaConf

    file = user_config_file(environ)
    saved_variables(backend, environ)  # Do not overwrite a file that cannot be read.
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

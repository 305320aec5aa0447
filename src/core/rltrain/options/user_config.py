"""This user's settings for all runs: environment variables that ranks need to communicate.

`rltrain doctor --fix` finds them and saves them to a file that the user may edit:

    environment:
      nccl: {NCCL_P2P_DISABLE: '1'}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rltrain.errors import UsageError
from rltrain.files.yaml import load_yaml


def user_config_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file, which may not exist."""
    folder = environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says to ignore a relative path.
    base = Path(folder) if os.path.isabs(folder) else Path(os.path.expanduser("~"), ".config")
    return base / "rltrain" / "config.yaml"


def saved_variables(backend: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables saved for a backend; invalid contents are a `UsageError`."""
    file = user_config_file(environ)
    content = load_yaml(str(file), "The file") if file.is_file() else {}
    section = content.get("environment") or {}
    variables = (section.get(backend) or {}) if isinstance(section, Mapping) else None
    if not isinstance(variables, Mapping):
        raise UsageError(
            f"{file}: environment must hold, for each backend, variables and their values."
        )
    return {str(name): str(value) for name, value in variables.items()}


def unset(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the environment does not set."""
    return {name: value for name, value in variables.items() if name not in environ}

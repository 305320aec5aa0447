"""Saves what lets ranks communicate, for all runs of this user; see `rltrain.options`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rltrain.errors import UsageError
from rltrain.launch import whole
from rltrain.options import load_yaml, saved_variables, user_config_file

_HEAD = """\
# Applied to every run of rltrain, by backend. A variable that the environment sets already keeps
# its value. `rltrain doctor --fix` writes this file; change it or delete it as you like.
"""


def save_variables(
    backend: str, variables: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> Path:
    """Save a backend's variables, replacing those saved before, and return the file's path."""
    import yaml

    file = user_config_file(environ)
    saved_variables(backend, environ)  # Do not overwrite a file that cannot be read.
    content = load_yaml(str(file), "The file") if file.is_file() else {}
    content["environment"] = {**(content.get("environment") or {}), backend: dict(variables)}
    try:
        with whole(file) as partial:
            partial.write_text(_HEAD + yaml.safe_dump(content, sort_keys=False))
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}.") from error
    return file

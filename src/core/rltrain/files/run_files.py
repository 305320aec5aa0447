"""The files of a run folder, whoever wrote them: found, read, and not left by a link."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.files.dotted import texts
from rltrain.files.reading import Unreadable, read_text, real
from rltrain.files.yaml import LARGEST, load_yaml, parse_yaml

HOW = "If it is yours, or you trust who wrote it, add --trust"

_SHOWN = 60
"""Characters of a value."""


def run_folder_of(path: str | Path) -> Path | None:
    """Return the run folder in which a file of options lies: of rltrain, Isaac Lab or mjlab."""
    for each in (Path(os.path.abspath(os.path.expanduser(path))), real(path)):
        folder = each.parent
        beside = [(folder / name).is_file() for name in ("config.yaml", "agent.yaml")]
        others = folder.name == "params" and each.name == "agent.yaml"
        if others or all(beside) or (folder / "manifest.json").is_file():
            return folder
    return None


def read_file(folder: Path, path: str | Path, option: str, trusted: bool) -> dict[str, Any]:
    """Return the options in a file of a run folder, which `option` has named."""
    if trusted:
        return load_yaml(str(path), option)
    try:
        text = read_text(Path(path), LARGEST, folder)
    except FileNotFoundError as error:
        raise UsageError(f"{option} {path}: there is no such file.") from error
    except Unreadable as error:
        raise UsageError(f"{option} {path}: {error.strerror}. {HOW}.") from error
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be read: {error.strerror}.") from error
    options = parse_yaml(text, str(path), option)
    for key, value in texts(options):
        if "${" in value:
            raise UsageError(
                f"{option} {path}: {key!a} has an interpolation, {shortened(value)}, which is "
                f"not resolved from a run folder: rltrain writes none. {HOW}."
            )
    return options


def check_inside(run: Path, path: Path, trusted: bool, instead: str = HOW) -> None:
    """Refuse to write where a link leads out of a run folder.

    Args:
        run: the run folder.
        path: a file or folder in it.
        trusted: whether the user trusts who wrote it.
        instead: what to do.

    Raises:
        UsageError: it does.
    """
    if not trusted and not real(path).is_relative_to(real(run)):
        raise UsageError(f"{path}: is a link out of {run}. {instead}.")


def shortened(value: Any) -> str:
    """Return a value for a message, whatever it holds."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."

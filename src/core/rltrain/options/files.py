"""Options in YAML files."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError

__all__ = ["load_yaml"]


def load_yaml(path: str, option: str) -> dict[str, Any]:
    """Load a YAML file that holds a mapping, and resolve its interpolations.

    OmegaConf reads it, so that `3e-4` is a number, as users of these libraries expect.

    Raises:
        UsageError: the file does not exist, does not parse, or does not hold a mapping.
    """
    import yaml
    from omegaconf.errors import OmegaConfBaseException

    if not Path(path).is_file():
        raise UsageError(f"{option} {path}: there is no such file.")
    try:
        loaded = copy.deepcopy(_parsed(path, Path(path).stat().st_mtime_ns))
    except (yaml.YAMLError, OmegaConfBaseException, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{option} {path}: does not parse as YAML: {error}") from error
    if not isinstance(loaded, dict) or not loaded:
        raise UsageError(f"{option} {path}: must hold a mapping of options, not {loaded!r}.")
    return {str(key): value for key, value in loaded.items()}


@functools.lru_cache(maxsize=64)
def _parsed(path: str, modified: int) -> Any:
    """Return a file's contents. Cached: listing tasks reads the same few files many times."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(OmegaConf.load(path), resolve=True)

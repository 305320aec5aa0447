"""What Isaac Lab's wheels say, for tests of the pages: names of tasks, and flags of its commands.

python tests/packaging/of_isaaclab.py      downloads the wheels, and writes the file beside this one
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "integration" / "corpus"))
import wheel

__all__ = ["FILE", "VERSIONS", "read"]

FILE = Path(__file__).with_suffix(".json")
VERSIONS = wheel.VERSIONS

_REGISTERED = re.compile(r'"(Isaac\w*-[\w-]+)"')
_LIBRARIES = ("rl_games", "rsl_rl", "skrl")
_RL = "isaaclab_rl/entrypoints"
_LAUNCHER = "isaaclab_physx/app/kit_launcher.py"
_SHARED = ("add_frontend_args", "add_video_args")
_ARGUMENTS_OF = [f"{_RL}/backends/cli_args_{library}.py" for library in ("rsl_rl", "skrl")]


def read(folder: Path) -> dict[str, Any]:
    """Return the names of tasks in an unpacked wheel, and what its commands take, if it has any."""
    found: dict[str, Any] = {"tasks": sorted(set(_tasks(folder)))}
    if (folder / _RL).is_dir():
        found["flags"] = {
            "train": _flags(
                folder,
                *(*_backends("train"), *_ARGUMENTS_OF, f"{_RL}/dispatch.py"),
                common=(*_SHARED, "add_common_train_args"),
            ),
            "train_multigpu": _flags(folder, "isaaclab/cli/multigpu.py"),
            "play": _flags(
                folder,
                *(*_backends("play"), *_ARGUMENTS_OF, f"{_RL}/dispatch.py"),
                common=(*_SHARED, "add_common_play_args"),
            ),
            "leapp export": _flags(
                folder,
                *(*_backends("export"), f"{_RL}/backends/export_common.py", f"{_RL}/dispatch.py"),
            ),
            "random_agent": _flags(folder, f"{_RL}/simple_agents.py", common=("add_video_args",)),
        }
        found["request"] = _fields(folder / _RL / "api.py", "TrainingRequest")
    return found


def _tasks(folder: Path) -> Iterator[str]:
    (package,) = [
        path for path in folder.rglob("isaaclab_tasks") if (path / "__init__.py").is_file()
    ]
    for file in package.rglob("__init__.py"):
        yield from _REGISTERED.findall(file.read_text("utf-8"))


def _backends(action: str) -> list[str]:
    return [f"{_RL}/backends/{action}_{library}.py" for library in _LIBRARIES]


def _flags(folder: Path, *paths: str, common: Iterable[str] = ()) -> list[str]:
    """Return the flags that these files add, the launcher, and these of the common functions."""
    shared = ast.walk(_parsed(folder / _RL / "common.py"))
    nodes = [_parsed(folder / path) for path in (*paths, _LAUNCHER)]
    nodes += [node for node in shared if getattr(node, "name", None) in common]
    return sorted(set(_added(nodes)))


def _fields(path: Path, name: str) -> list[str]:
    classes = [node for node in ast.walk(_parsed(path)) if isinstance(node, ast.ClassDef)]
    (found,) = [each for each in classes if each.name == name]
    return [ast.unparse(each.target) for each in found.body if isinstance(each, ast.AnnAssign)]


def _parsed(path: Path) -> ast.AST:
    return ast.parse(path.read_text("utf-8"))


def _added(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the flags in the calls of `add_argument`, with the --no- of those that have one."""
    for call in (part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Call)):
        if getattr(call.func, "attr", None) != "add_argument":
            continue
        flags = [word.value for word in call.args if isinstance(word, ast.Constant)]
        yield from (flag for flag in flags if flag.startswith("-"))
        if any("BooleanOptionalAction" in ast.unparse(keyword.value) for keyword in call.keywords):
            yield from (f"--no-{flag.removeprefix('--')}" for flag in flags)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        found = {version: read(wheel.fetched(Path(temporary), version)) for version in VERSIONS}
    FILE.write_text(json.dumps(found, indent=1) + "\n")

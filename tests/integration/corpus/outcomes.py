"""Trains each of Isaac Lab's options files, unchanged, for two iterations on two fake ranks."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import spaces
from wheel import Bare, tasks_of

from rltrain.errors import UsageError
from rltrain.files.dotted import flatten
from rltrain.files.yaml import load_yaml
from rltrain.testing import FakeWorld, differing

LIBRARIES = ("rl_games", "rsl_rl", "skrl")
STANDIN = Path(__file__).parents[3] / "src/plugins/suites/rltrain-isaaclab/tests/standin"
WORKS = "works"
NUM_ENVS = {"rl_games": 4, "rsl_rl": 32, "skrl": 4}
"""Environments a rank, of two or more of which recurrent policies of rsl_rl make a mini-batch.
There are more where that many cannot be cut into a file's."""
TEACHERS = {"AnymalDFlatDistillationRunnerCfg": "AnymalDFlatPPORunnerCfg"}
"""By configuration of a distillation, that of the PPO whose actor is its teacher."""

CUT = {
    "params.config.horizon_length": 36,
    "params.config.seq_length": 8,
    "params.config.mini_epochs": 2,
    "params.config.central_value_config.mini_epochs": 2,
    "params.network.rnn.units": 32,
    "params.config.central_value_config.network.rnn.units": 32,
    "num_steps_per_env": 16,
    "algorithm.num_learning_epochs": 2,
    "policy.rnn_hidden_dim": 32,
    "agent.learning_epochs": 2,
    "agent.rollouts": 24,
}
"""The most of each option, which is halved until it fits, so that this does not take hours. Nothing
else is changed but the number of iterations and environments, and with it the size of mini-batches.
"""
_DIVISIBLE = re.compile(r"--num-envs that is divisible by (\d+)")
_number = itertools.count()


@dataclass(frozen=True)
class File:
    name: str
    """Its path in Isaac Lab's tasks; for rsl_rl, with the name of the class."""
    path: Path
    made_for: int
    """The number of environments of its task."""
    teacher: Path | None = None
    """Of a distillation, the file of the PPO before it."""


def files(library: str, source: Path, folder: Path) -> list[File]:
    """Return all of Isaac Lab's files for a library; those made from classes go to `folder`."""
    root = tasks_of(source)
    if library != "rsl_rl":
        found = sorted(root.rglob(f"agents/{library}_*.y*ml"))
        return [File(str(path.relative_to(root)), path, _made_for(path)) for path in found]
    script = Path(__file__).parent / "rsl_rl_options.py"
    command = [sys.executable, str(script), str(source), str(folder)]
    subprocess.run(command, check=True, timeout=120)
    named = {path.read_text().partition("\n")[0][2:]: path for path in sorted(folder.glob("*"))}
    by_class = {name.partition(":")[2]: path for name, path in named.items()}
    return [
        File(
            name,
            path,
            _made_for(root / name.partition(":")[0]),
            by_class.get(TEACHERS.get(name.partition(":")[2], "")),
        )
        for name, path in named.items()
    ]


def _made_for(path: Path) -> int:
    """Return the number of environments in the configuration of the closest task."""
    sees = re.compile("camera|feature|vision")
    for folder in path.parent.parents:
        numbers = [
            int(number)
            for file in folder.glob("*.py")
            if bool(sees.search(file.name)) == bool(sees.search(path.name))
            for number in re.findall(r"(?<![.\w])num_envs ?= ?(\d+)", file.read_text())
        ]
        if numbers:
            return max(numbers)
        if folder.name == "isaaclab_tasks":
            break
    if "contrib" in path.parts:  # A robot of the contributed ones, on a task of the core's.
        return _made_for(Path(*("core" if part == "contrib" else part for part in path.parts)))
    return 128  # Forge's, which are Factory's; those of skrl's, elsewhere, make no difference.


def outcome(library: str, file: File, log_root: Path) -> str:
    """Return the outcome of a file: it works, which refusal refuses it, or how it fails.

    The stand-in for Isaac Lab has to be started: see `all_outcomes`.
    """
    options = load_yaml(str(file.path), "the file")
    task = _registered(*getattr(spaces, library)(Path(file.name).name, options), file.made_for)
    run = {"library": library, "suite": "isaaclab", "task": task, "log_root": str(log_root)}
    try:
        if file.teacher is not None:
            (taught,) = _trained(1, file.teacher, **run)
            run |= {"algorithm": "distillation", "checkpoint": taught.result.checkpoint}
        runs = _trained(2, file.path, **run)
    except UsageError as error:
        return "refused: " + str(error).partition(": ")[0]
    except Exception as error:
        traceback.print_exc()
        return f"fails: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    if runs[0].result.iterations != 2:
        return f"fails: {runs[0].result.iterations} iterations"
    apart = differing(runs)
    return f"fails: ranks differ in {apart}" if apart else WORKS


def _trained(ranks: int, path: Path, **run):
    known = dict(flatten(load_yaml(str(path), "the file")))
    run["agent"] = {key: _halved(known[key], most) for key, most in CUT.items() if key in known}
    # The other libraries' files give the number of mini-batches, and SAC has none.
    on_policy = known.get("params.algo.name") != "sac"
    run["scale_minibatches"] = run["library"] == "rl_games" and on_policy
    run |= {"agent_config": str(path), "max_iterations": 2}
    world = FakeWorld(ranks, rank_local=["skrl:config.torch"] if run["library"] == "skrl" else ())
    try:
        return world.train(**run, num_envs=NUM_ENVS[run["library"]])
    except UsageError as error:
        more = _DIVISIBLE.search(str(error))
        if more is None:
            raise
        return world.train(**run, num_envs=int(more[1]))


def _halved(value: int, most: int) -> int:
    return value if value <= most else _halved(value // 2, most)


def _registered(groups, action, made_for: int) -> str:
    """Register a task with these spaces, and return its name."""
    import gymnasium
    from corpus_task import CorpusCfg
    from isaaclab.envs import SceneCfg

    def cfg():
        return CorpusCfg(
            scene=SceneCfg(num_envs=made_for),
            groups=groups,
            observation_space=groups["policy"],
            action_space=action,
        )

    name = f"Isaac-Corpus-{next(_number)}-Direct-v0"
    gymnasium.register(
        id=name,
        entry_point="corpus_task:CorpusEnv",
        disable_env_checker=True,
        kwargs={"env_cfg_entry_point": cfg},
    )
    return name


def all_outcomes(
    library: str, source: Path, folder: Path, each: Callable[[File, str], None] = lambda *_: None
) -> Counter[str]:
    """Count the outcomes of Isaac Lab's files for a library.

    Args:
        library: one of `LIBRARIES`.
        source: the wheel's packages.
        folder: for run folders, and for options made from classes.
        each: called with each file and its outcome.
    """
    from rltrain_isaaclab.answer import answer

    options, counts = folder / "options", Counter()
    options.mkdir(parents=True)
    with (
        # Asked here: a process for each file would take most of the time.
        mock.patch("rltrain_isaaclab.plugin.ask", answer),
        mock.patch.object(sys, "path", [str(STANDIN), *sys.path]),
        mock.patch.object(sys, "argv", ["rltrain"]),
        mock.patch.object(sys, "meta_path", [*sys.meta_path]),
    ):
        _start(source)
        for file in files(library, source, options):
            came = outcome(library, file, folder / "logs")
            counts[came] += 1
            each(file, came)
    return counts


def _start(source: Path) -> None:
    """Start the stand-in, and make the functions that options name importable beside it."""
    import isaaclab.app

    from rltrain_isaaclab import app, compat

    app._held.clear()
    isaaclab.app.RUNNING.clear()
    compat.start_to_look()
    import isaaclab_tasks

    tasks = str(tasks_of(source))
    if tasks not in isaaclab_tasks.__path__:
        isaaclab_tasks.__path__.append(tasks)
    sys.meta_path.insert(0, Bare(source))

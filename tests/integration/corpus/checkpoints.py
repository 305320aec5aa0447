"""Checkpoints that other tools and versions wrote, and what becomes of them.

Old layouts are written here as the versions that are named wrote them.
"""

from __future__ import annotations

import dataclasses
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from rltrain.errors import UsageError
from rltrain.launch.preflight import preflight
from rltrain.plan.resolve import make_plan
from rltrain.policies.session import open_session
from rltrain.policies.trained import Trained, plan_policy
from rltrain.storage.checkpoint import Checkpoint
from rltrain.testing import FakeWorld
from rltrain.types import World

LIBRARIES = ("rl_games", "rsl_rl", "skrl")
TASK, OTHER_TASK = "rltrain/CartPoleContinuous-v1", "rltrain/Pendulum-v1"
SHORT: dict[str, dict[str, Any]] = {
    "rl_games": {"params.config.horizon_length": 16, "params.config.minibatch_size": 64},
    "rsl_rl": {"num_steps_per_env": 16},
    "skrl": {"agent.rollouts": 16, "agent.mini_batches": 2},
}
SMALLER = {
    "rl_games": {"params.network.mlp.units": [8]},
    "rsl_rl": {"actor.hidden_dims": [8], "critic.hidden_dims": [8]},
}
USED, LATE = "used", "LATE"


def run(library: str, folder: Path, **changed: Any) -> dict[str, Any]:
    return {
        "library": library,
        "task": TASK,
        "agent": SHORT[library],
        "num_envs": 8,
        "max_iterations": 3,
        "log_root": str(folder / "logs"),
    } | changed


def trained(library: str, folder: Path, **changed: Any) -> Path:
    """Train one iteration, and return the checkpoint's file, moved out of its run folder."""
    world = FakeWorld(1, rank_local=["skrl:config.torch"] if library == "skrl" else ())
    options = run(library, folder, **{"max_iterations": 1} | changed)
    [made] = world.train(**options)
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(made.result.checkpoint, folder))


def outcomes(library: str, path: Path, folder: Path) -> tuple[str, str]:
    """Return whether a file is trained on, and acts, or why it is refused."""
    # In this process: a child for each file would take most of the time.
    with mock.patch("rltrain.plan.files.preflight", here):
        return (
            came(lambda: train(library, path, folder)),
            came(lambda: act(library, path, folder)),
        )


def here(name: str, *arguments: Any, in_child: bool) -> Any:
    return preflight(name, *arguments, in_child=False)


def came(use: Callable[[], None]) -> str:
    try:
        use()
    except UsageError as error:
        return str(error).partition(": ")[2]
    except Exception as error:
        return f"{LATE} {type(error).__name__}: {error}"
    return USED


def train(library: str, path: Path, folder: Path) -> None:
    # Ranks that are to be started, of half as many environments each.
    options = run(library, folder, checkpoint=str(path))
    make_plan({**options, "distributed": True, "nproc_per_node": 2})
    trained(library, folder / "after", checkpoint=str(path), max_iterations=3)


def act(library: str, path: Path, folder: Path) -> None:
    options = run(library, folder, agent_config=None)
    options |= {"distributed": True, "nproc_per_node": 1}
    plan = plan_policy(Trained(Checkpoint(path), options, folder))
    with open_session(alone(plan.config), World(), plan.registry) as session:
        session.load_policy().act(session.reset(1))


def alone(config: Any) -> Any:
    return dataclasses.replace(config, distributed=False, launcher=None, nproc_per_node=None)


def files(folder: Path) -> dict[tuple[str, str], Path]:
    """Write all files; return them by who reads them and what they are."""
    found: dict[tuple[str, str], Path] = {}
    for library in LIBRARIES:
        own = trained(library, folder / library)
        found[library, f"{library}, the installed version"] = own
        for name, write in OLDER.get(library, {}).items():
            path = folder / library / f"old-{len(found)}.pt"
            torch.save(write(torch.load(own, weights_only=False)), path)
            found[library, name] = path
        other = trained(library, folder / library / "other", task=OTHER_TASK)
        found[library, "of another task"] = other
        if library in SMALLER:
            agent = SHORT[library] | SMALLER[library]
            smaller = trained(library, folder / library / "smaller", agent=agent)
            found[library, "of smaller networks"] = smaller
    for library, other in zip(LIBRARIES, (*LIBRARIES[1:], LIBRARIES[0]), strict=True):
        found[library, f"of {other}"] = found[other, f"{other}, the installed version"]
    for name, write in NONE.items():
        path = folder / f"{name.replace(' ', '-')}.pt"
        write(path)
        found["rsl_rl", name] = path
    return found


def of_rsl_rl_3(saved: dict[str, Any]) -> dict[str, Any]:
    """`OnPolicyRunner.save` of rsl_rl 3.1.2, with its `ActorCritic`."""
    model: dict[str, Any] = {}
    for role in ("actor", "critic"):
        for key, value in saved.pop(f"{role}_state_dict").items():
            if key.startswith("distribution."):
                model = {key.removeprefix("distribution.").removesuffix("_param"): value, **model}
            elif key.startswith("obs_normalizer."):
                model[f"{role}_{key}"] = value
            else:
                model[f"{role}.{key.removeprefix('mlp.')}"] = value
    return {"model_state_dict": model, **saved}


def of_rsl_rl_2(saved: dict[str, Any]) -> dict[str, Any]:
    """`OnPolicyRunner.save` of rsl_rl 2.3.3: normalizers lie beside the module."""
    saved = of_rsl_rl_3(saved)
    model = saved["model_state_dict"]
    places = {"actor": "obs_norm_state_dict", "critic": "privileged_obs_norm_state_dict"}
    for role, place in places.items():
        prefix = f"{role}_obs_normalizer."
        here = [key for key in model if key.startswith(prefix)]
        saved[place] = {key.removeprefix(prefix): model.pop(key) for key in here}
    return saved


def of_rsl_rl_1(saved: dict[str, Any]) -> dict[str, Any]:
    """`OnPolicyRunner.save` of rsl_rl 1.0.2: what normalizers have seen is not counted."""
    saved = of_rsl_rl_2(saved)
    saved["critic_obs_norm_state_dict"] = saved.pop("privileged_obs_norm_state_dict")
    for place in ("obs_norm_state_dict", "critic_obs_norm_state_dict"):
        saved[place].pop("count", None)
    return saved


def of_rsl_rl_4(saved: dict[str, Any]) -> dict[str, Any]:
    """`PPO.save` of rsl_rl 4.0.1: the noise is the actor's."""
    noise = {
        key.removeprefix("distribution.").removesuffix("_param"): value
        for key, value in saved["actor_state_dict"].items()
        if key.startswith("distribution.")
    }
    rest = {k: v for k, v in saved["actor_state_dict"].items() if "distribution" not in k}
    return {**saved, "actor_state_dict": {**noise, **rest}}


def of_mjlab(saved: dict[str, Any]) -> dict[str, Any]:
    """`MjlabOnPolicyRunner.save` of mjlab 1.6."""
    return {**saved, "infos": {"env_state": {"common_step_counter": 16}}}


def of_rl_games(saved: dict[str, Any]) -> dict[str, Any]:
    """rl_games' own script, with a model that `torch.compile` has wrapped."""
    model = {f"_orig_mod.{key}": value for key, value in saved["model"].items()}
    return {key: value for key, value in saved.items() if key != "rltrain"} | {"model": model}


def of_skrl_1(saved: dict[str, Any]) -> dict[str, Any]:
    """`Agent.write_checkpoint` of skrl 1.4.3."""
    old = {key: saved[key] for key in ("policy", "value", "optimizer", "value_preprocessor")}
    return old | {"state_preprocessor": saved["observation_preprocessor"]}


def of_skrl(saved: dict[str, Any]) -> dict[str, Any]:
    """skrl's own script."""
    saved.pop("rltrain", None)
    return saved


OLDER: dict[str, dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "rl_games": {"rl_games' own script, compiled": of_rl_games},
    "rsl_rl": {
        "rsl_rl 1": of_rsl_rl_1,
        "rsl_rl 2, Isaac Lab 2.0 to 2.2": of_rsl_rl_2,
        "rsl_rl 3, Isaac Lab 2.3": of_rsl_rl_3,
        "rsl_rl 4": of_rsl_rl_4,
        "mjlab": of_mjlab,
    },
    "skrl": {"skrl 1": of_skrl_1, "skrl's own script": of_skrl},
}


def _archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "{}")


NONE: dict[str, Callable[[Path], Any]] = {
    "weights alone": lambda path: torch.save(torch.nn.Linear(2, 2).state_dict(), path),
    "a whole module": lambda path: torch.save(torch.nn.Linear(2, 2), path),
    "an exported policy": lambda path: torch.jit.script(torch.nn.Linear(2, 2)).save(str(path)),
    "an archive of another library": _archive,
    "an empty file": lambda path: path.write_bytes(b""),
    "a pointer of Git LFS": lambda path: path.write_text("version https://git-lfs.github.com\n"),
    "a folder": lambda path: path.mkdir(),
    "a file that was renamed": lambda path: None,
}
"""Files of which none is a checkpoint."""

"""The differences between Isaac Lab 2 and 3.

In Isaac Lab 2 the app (Isaac Sim) must run before anything else of Isaac Lab can be imported. In
Isaac Lab 3 the task's configuration is loaded first, and decides whether the app is needed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain_adapters.sources import import_for
from rltrain_isaaclab import app

NEEDS_CAMERAS = "enable_cameras"
"""Part of the error that Isaac Lab 2 raises if the app was started without cameras."""

PLAYED = "play_env_cfg_entry_point"
"""At which projects, such as unitree_rl_lab, register a task's configuration for playing."""

_NEWTON = ("newton_mjwarp", "newton_renderer")
"""The presets of Isaac Lab 3 that need neither Isaac Sim nor another simulator."""

NO_COPY = "Unable to copy file"
"""Part of the error that Isaac Lab 3 raises if a server does not give it a file."""

CANNOT_SEE = "only supports data types"
"""Part of the error that Isaac Lab 3 raises if a renderer cannot draw what a camera is to see."""


def start(task: str, launch: app.Launch, configured: Callable[[], Any]) -> Any:
    """Start what a task needs, unless it already runs, and return the task's configuration.

    Args:
        task: "Name", or "module:Name".
        launch: the arguments that start the app.
        configured: loads and completes the configuration.
    """
    launch_simulation = _launch_simulation()
    if launch_simulation is None:
        app.start(launch)
    registered(task)
    cfg = configured()
    if launch_simulation is not None:
        try:
            app.enter(launch_simulation, cfg, launch)
        except SystemExit as error:
            raise UsageError(f"Isaac Lab cannot be started for the task {task!r}.") from error
    return cfg


def start_to_look() -> None:
    """Make configurations importable: start the app without a window if Isaac Lab needs it."""
    if _launch_simulation() is None:
        app.start(app.Launch("cpu"))


def registered(task: str) -> Mapping[str, Any] | None:
    """Return the keyword arguments registered with a task, such as entry points, or None.

    Isaac Lab's own tasks are imported, the named module, and only if that is not enough the
    projects that declare tasks.
    """
    import gymnasium

    importlib.import_module("isaaclab_tasks")
    name = import_for(task)
    broken = []
    for project in entry_points(group="isaaclab.tasks"):
        if name != task or name in gymnasium.registry:
            break
        try:
            import_for(task, project.module)
        except UsageError as error:
            broken.append(error)
    spec = gymnasium.registry.get(name)
    if broken and spec is None:
        raise broken[0]
    return spec.kwargs if spec is not None and "env_cfg_entry_point" in spec.kwargs else None


def load(task: str, agent: str | None = None, presets: Sequence[str] = ()) -> tuple[Any, Any]:
    """Return a task's configuration, and the options at an agent's entry point or None.

    Raises:
        ValueError: there is no such entry point.
        UsageError: there is no such preset.
    """
    utils = importlib.import_module("isaaclab_tasks.utils")
    name = task.rpartition(":")[2]
    words = " ".join(f"env.{preset.removeprefix('env.')}" for preset in presets)
    given = f"{words} (task {task})"
    if hasattr(utils, "resolve_task_config"):
        # Isaac Lab 3 reads presets from the command line.
        try:
            with app.isolated(*presets):
                env_cfg, agent_cfg = utils.resolve_task_config(name, agent)
        except ValueError as error:
            if not presets:
                raise
            reason = str(error).splitlines()[0].rstrip(".")
            raise UsageError(f"{given}: {reason}. {_presets_of(name)}") from error
        return env_cfg, agent_cfg
    if presets:
        raise UsageError(f"{given}: this version of Isaac Lab has no presets.")
    env_cfg = _from_registry(name, "env_cfg_entry_point")
    return env_cfg, _from_registry(name, agent) if agent else None


def played(task: str, cfg: Any, presets: Sequence[str]) -> Any:
    """Return a task's configuration for playing, or None if it has none.

    That of its own entry point, as projects for Isaac Lab 2 register one; else Isaac Lab 3 turns
    the configuration for training, which is changed, into one.
    """
    import gymnasium

    name = task.rpartition(":")[2]
    own = gymnasium.spec(name).kwargs.get(PLAYED)
    if own is None:
        if not hasattr(cfg, "play_mode"):
            return None
        cfg.play_mode()
        return cfg
    # Isaac Lab 3 resolves presets only in what a task trains with: that of a task of our own.
    alias = f"rltrain/Played-{name.replace('/', '-')}"
    if alias not in gymnasium.registry:
        gymnasium.register(alias, "gymnasium:Env", kwargs={"env_cfg_entry_point": own})
    return load(alias, presets=presets)[0]


def cannot_play(task: str, cfg: Any) -> str | None:
    """Return a line that tells that a task has no configuration for playing; None if it has."""
    import gymnasium

    name = task.rpartition(":")[2]
    if PLAYED in gymnasium.spec(name).kwargs or hasattr(cfg, "play_mode"):
        return None
    variant = re.sub(r"(-v\d+)?$", r"-Play\1", name, count=1)
    other = f"; --task {variant} is one" if variant in gymnasium.registry else ""
    return f"{task} is played as it is trained: it registers no configuration for playing{other}"


def preset_paths(task: str) -> Mapping[str, Collection[str]]:
    """Return the names of presets by the parts of the configuration for which each can be chosen.

    Isaac Lab 3 only.
    """
    if _launch_simulation() is None:
        return {}
    registered(task)
    cfg = _from_registry(task.rpartition(":")[2], "env_cfg_entry_point")
    collect = getattr(
        importlib.import_module("isaaclab_tasks.utils.hydra"), "collect_presets", None
    )
    return collect(cfg) if collect is not None else {}


def _from_registry(name: str, key: str) -> Any:
    return importlib.import_module("isaaclab_tasks.utils").load_cfg_from_registry(name, key)


def _presets_of(name: str) -> str:
    """Describe the presets that a task has."""
    known = [f"{kind}={' or '.join(names)}" for kind, names in _presets(name).items() if names]
    return f"The task has {'; '.join(known)}." if known else "The task has no presets."


def _presets(name: str) -> dict[str, list[str]]:
    """Return the presets that a task has, by the option that selects them."""
    try:
        utils = importlib.import_module("isaaclab_tasks.utils.preset_cli")
        found = utils.enumerate_task_presets(name) or {}
    except (ImportError, AttributeError):  # The betas of Isaac Lab 3 do not have it.
        return {}
    return {target.value: names for target, names in found.items()}


def lacks(task: str, cfg: Any) -> str | None:
    """Return what a configuration needs and this machine does not have, or None.

    Isaac Lab 3 only: it runs without Isaac Sim what needs neither its physics nor its renderer, and
    ends the process otherwise. This changes the configuration.
    """
    validate = getattr(importlib.import_module("isaaclab.app"), "validate_launch", None)
    if validate is None:
        return None
    try:
        scan, of_isaac_sim = validate(cfg, {"livestream": 0, "visualizer": "none"})
    except ValueError as error:
        return str(error)
    needed = {
        "isaacsim": ", ".join(of_isaac_sim),
        "ovphysx": "OVPhysX" if scan.has_ovphysx_physics else "",
        "ovrtx": "OVRTX" if scan.has_ovrtx else "",
    }
    missing = {name: what for name, what in needed.items() if what and not _is_installed(name)}
    if not missing:
        return None
    kind = "renderer" if not scan.has_kit_physics and not scan.has_ovphysx_physics else "physics"
    known = _presets(task.rpartition(":")[2]).get(kind, [])
    newton = [f"{kind}={name}" for name in known if name in _NEWTON]
    return (
        f"{' and '.join(missing.values())} needs the package {' and '.join(missing)}. Install it"
        f"{', or give ' if newton else ''}{' or '.join(newton)}."
    )


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def make(task: str, cfg: Any, render_mode: str | None = None) -> Any:
    """Make the environments of a configuration, without Gymnasium's wrappers.

    Several agents become one, as with Isaac Lab's own scripts: it observes what all observe, acts
    for all, and gets the sum of their rewards.
    """
    import gymnasium

    name = task.rpartition(":")[2]
    env = gymnasium.make(name, cfg=cfg, render_mode=render_mode).unwrapped
    if has_several_agents(cfg):
        env = importlib.import_module("isaaclab.envs").multi_agent_to_single_agent(env)
    return env


def described(env: Any) -> dict[str, Any]:
    """Return what Isaac Lab tells of an environment to deploy its policy: its IO descriptors.

    Direct tasks have no managers, and so no actions and terms: of those, joints and times.
    """
    found: dict[str, Any] = {
        "scene": {"decimation": int(env.cfg.decimation), "physics_dt": float(env.cfg.sim.dt)}
    }
    with contextlib.suppress(ImportError), warnings.catch_warnings():  # Deprecated from 3.0 on.
        warnings.simplefilter("ignore")
        if hasattr(env, "get_IO_descriptors"):
            own = env.get_IO_descriptors
            return found | dict(own() if callable(own) else own)
        module = importlib.import_module("isaaclab.envs.utils.io_descriptors")
        found["articulations"] = module.export_articulations_data(env)
    return found


def needs_kit(cfg: Any) -> bool:
    """Return whether a configuration of Isaac Lab 3 needs Isaac Sim."""
    launcher = importlib.import_module("isaaclab.app.sim_launcher")
    _, sources = launcher.validate_launch(cfg)
    return bool(sources)


def asset_root() -> str:
    """Return where Isaac Lab 3 takes robots and grounds from."""
    return str(importlib.import_module("isaaclab.utils.assets").NUCLEUS_ASSET_ROOT_DIR)


def has_several_agents(cfg: Any) -> bool:
    """Return whether a configuration belongs to a multi-agent task."""
    return any("MARL" in base.__name__ for base in type(cfg).__mro__)


def _launch_simulation() -> Callable[..., Any] | None:
    """Return the function that starts Isaac Lab 3, or None for Isaac Lab 2."""
    found = getattr(importlib.import_module("isaaclab.app"), "launch_simulation", None)
    if found is None and _has_file("isaaclab_tasks", "utils/sim_launcher.py"):
        # The betas of Isaac Lab 3 have it there.
        found = importlib.import_module("isaaclab_tasks.utils.sim_launcher").launch_simulation
    launch: Callable[..., Any] | None = found
    return launch


def _has_file(package: str, path: str) -> bool:
    """Return whether a package has a file, without importing it, which would need the app."""
    spec = importlib.util.find_spec(package)
    return bool(spec and spec.origin and (Path(spec.origin).parent / path).is_file())

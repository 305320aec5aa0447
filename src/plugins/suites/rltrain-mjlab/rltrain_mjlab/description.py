"""What mjlab writes into its own ONNX files, for the files that rltrain exports."""

from __future__ import annotations

from typing import Any

from mjlab.envs import ManagerBasedRlEnv
from mjlab.rl.exporter_utils import get_base_metadata, list_to_csv_str


def describe(env: ManagerBasedRlEnv, name: str) -> dict[str, Any]:
    """Return mjlab's metadata of a task, as its text and, under "exact", as its values.

    mjlab's text rounds numbers to three decimals.

    Args:
        env: mjlab's environments.
        name: identifies the policy; mjlab's key `run_path`.

    Returns:
        Besides, and for every task, `decimation` and `physics_dt` (s). mjlab's keys are there only
        for tasks with an entity "robot" and the action "joint_pos": mjlab has them for no others.
    """
    times = {"decimation": int(env.cfg.decimation), "physics_dt": float(env.physics_dt)}
    try:
        metadata = get_base_metadata(env, name)
    except (AssertionError, KeyError):
        return times
    if "motion" in env.command_manager.active_terms:  # As mjlab's runner of its tracking tasks.
        motion: Any = env.command_manager.get_term("motion").cfg
        metadata["anchor_body_name"] = motion.anchor_body_name
        metadata["body_names"] = list(motion.body_names)
    text = {
        key: list_to_csv_str(value) if isinstance(value, list) else str(value)
        for key, value in metadata.items()
    }
    return {**times, **text, "exact": metadata}

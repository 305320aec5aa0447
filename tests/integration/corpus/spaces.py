"""The spaces of the task of an options file, as far as the file shows them.

Sizes are small, except where files depend on them: images that are large enough for three
convolutions, and the vectors of the robots whose symmetries Isaac Lab mirrors.
"""

from __future__ import annotations

import re

from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

SIZE = 12
IMAGE = (36, 36, 3)
MIRRORED = {"anymal": (48, 12), "cartpole": (4, 1)}
"""By robot, how many numbers its observations and actions have."""
_INPUT = re.compile(r"(?P<image>permute\()?OBSERVATIONS(?:\[(?P<part>\"[\w-]+\"|\d+)\])?")


def vector(size: int = SIZE) -> Box:
    return Box(-float("inf"), float("inf"), (size,))


def image(channels_first: bool = False) -> Box:
    shape = (IMAGE[2], *IMAGE[:2]) if channels_first else IMAGE
    return Box(-float("inf"), float("inf"), shape)


def rl_games(name, options):
    """Return the observation groups and the space of actions."""
    params = options["params"]
    groups = {"policy": image() if "cnn" in params["network"] else vector()}
    if "central_value_config" in params["config"]:
        groups["critic"] = vector()
    named = params["env"].get("obs_groups", {}).values()
    groups |= {group: vector() for each in named for group in each if group not in groups}
    return groups, vector(4)


def rsl_rl(name, options):
    named = {group for each in options.get("obs_groups", {}).values() for group in each} | {
        "policy"
    }
    function = str((options["algorithm"].get("symmetry_cfg") or {}).get("data_augmentation_func"))
    sizes = (size for robot, size in MIRRORED.items() if robot in function)
    observation, action = next(sizes, (SIZE, 4))
    return {group: vector(observation) for group in sorted(named)}, vector(action)


def skrl(name, options):
    models = options["models"]
    action = {"CategoricalMixin": Discrete(3), "MultiCategoricalMixin": MultiDiscrete([3, 2])}.get(
        models["policy"]["class"], Box(-1.0, 1.0, (2,))
    )
    if "one_hot_encoding" in str(models):
        whole = MultiDiscrete([2] * 4) if "skrl_multi" in name else Discrete(16)
        return {"policy": whole}, action
    parts = {}
    for layer in models["policy"].get("network", []):
        for found in _INPUT.finditer(str(layer["input"])):
            sees = found["image"] or "conv2d" in str(layer["layers"])
            parts[found["part"]] = image(not found["image"]) if sees else vector()
    whole = parts.pop(None, None)
    if whole is None and any(part.isdigit() for part in parts):
        whole = Tuple([parts[part] for part in sorted(parts)])
    elif whole is None and parts:
        whole = Dict({part.strip('"'): space for part, space in parts.items()})
    return {"policy": whole or vector()}, action

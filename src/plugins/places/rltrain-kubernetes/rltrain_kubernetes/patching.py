"""What the user adds to the pods: a file merged into their specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.errors import UsageError
from rltrain.options import load_yaml


def read_patch(path: str | None) -> Mapping[str, Any]:
    """Return a file with a part of a pod's specification; nothing without one."""
    if path is None:
        return {}
    patch = load_yaml(path, "--patch")
    if "spec" in patch:
        raise UsageError(
            f"--patch {path}: begin with what is below `spec:` of a pod, such as tolerations: or "
            "imagePullSecrets:."
        )
    containers = patch.get("containers", [{}])
    if not isinstance(containers, list) or not all(isinstance(each, dict) for each in containers):
        raise UsageError(f"--patch {path}: containers: must be a list of mappings.")
    return patch


def merged(spec: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification with a patch merged into it, as `kubectl patch` does.

    Mappings are merged. So are the elements of lists that have a name, by it; one without a name is
    meant for the only element, as the pod has one container. Other lists are replaced.

    Example:
        >>> merged({"containers": [{"name": "a", "image": "i"}]}, {"containers": [{"tty": True}]})
        {'containers': [{'name': 'a', 'image': 'i', 'tty': True}]}
    """
    found = dict(spec)
    for key, value in patch.items():
        before = found.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            found[key] = merged(before, value)
        elif isinstance(before, list) and isinstance(value, list) and _mergeable(before, value):
            found[key] = _merged_lists(before, value)
        else:
            found[key] = value
    return found


def _mergeable(before: list[Any], patch: list[Any]) -> bool:
    named = all(isinstance(each, Mapping) and "name" in each for each in before)
    return bool(before) and named and all(isinstance(each, Mapping) for each in patch)


def _merged_lists(before: list[Any], patch: list[Any]) -> list[Any]:
    found = {each["name"]: each for each in before}
    for each in patch:
        name = each.get("name", before[0]["name"] if len(before) == 1 else None)
        found[name] = merged(found.get(name, {}), each)
    return list(found.values())

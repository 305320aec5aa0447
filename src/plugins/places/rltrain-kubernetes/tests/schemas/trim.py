"""Trims the schema of a CustomResourceDefinition: python trim.py CRD.yaml VERSION > schema.json."""

from __future__ import annotations

import json
import sys
from typing import Any

import yaml

UNUSED = {
    *("status", "affinity", "ephemeralContainers", "initContainers", "lifecycle", "livenessProbe"),
    *("readinessProbe", "startupProbe", "securityContext", "topologySpreadConstraints"),
    *("elasticPolicy", "initializer", "volumeClaimPolicies", "ephemeral", "projected"),
}
"""Properties that no manifest has. Without them, a manifest that has one is wrong."""


def trimmed(schema: Any) -> Any:
    """Return a schema without descriptions and unused properties, in which others are errors."""
    if isinstance(schema, list):
        return [trimmed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: trimmed(value)
        for key, value in schema.items()
        if not key.startswith("x-kubernetes-")
        if key not in ("description", "format", "default") or isinstance(value, dict)
    }
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        properties = schema["properties"].items()
        kept["properties"] = {k: trimmed(v) for k, v in properties if k not in UNUSED}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            kept["additionalProperties"] = False
    return kept


if __name__ == "__main__":
    path, version = sys.argv[1:]
    with open(path) as file:
        versions = yaml.safe_load(file)["spec"]["versions"]
    (found,) = [each["schema"]["openAPIV3Schema"] for each in versions if each["name"] == version]
    print(json.dumps(trimmed(found), separators=(",", ":")))

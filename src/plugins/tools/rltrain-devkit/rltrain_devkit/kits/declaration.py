"""The rule that all kits share: declaring a plugin imports nothing heavy."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

from rltrain.plugins import discover
from rltrain.specs import Spec
from rltrain_devkit.kits.rules import skip

_DECLARE = """
import sys
from rltrain.plugins import discover
from rltrain.specs import KINDS
discover().get(KINDS[sys.argv[1]], sys.argv[2])
print(*(name for name in ("gymnasium", "jax", "numpy", "torch") if name in sys.modules))
"""


def check_declaring_is_light(kind: type[Spec], name: str) -> None:
    """List plugins in a child process, with only this one enabled, and check what it imports."""
    registry = discover()
    spec = registry.get(kind, name)
    (record,) = (record for record in registry.records if spec in record.specs)
    plugin, given = record.name, record.plugin and record.plugin.given
    if given is not None and not isinstance(given, ModuleType):
        skip("the plugin is an object: give the module that it is to be published in")
    child = subprocess.run(
        [sys.executable, "-c", _DECLARE, kind.kind, name],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "RLTRAIN_PLUGINS": plugin,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not child.returncode, child.stderr
    imported = child.stdout.split()
    assert not imported, (
        f"the plugin {plugin!r} imports {', '.join(imported)} when plugins are listed. Import "
        "inside functions, or in the factory's module, which an import string names."
    )

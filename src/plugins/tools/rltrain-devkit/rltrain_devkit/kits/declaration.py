"""The rule that all kits share: declaring a plugin imports nothing heavy."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

from rltrain.plugins import PluginRecord, adapted, discover
from rltrain.specs import Spec
from rltrain_devkit.kits.rules import skip

_DECLARE = """
import sys
from rltrain.plugins import discover
discover()
print(*(name for name in sys.argv[1:] if name in sys.modules))
"""


def check_declaring_is_light(kind: type[Spec], name: str) -> None:
    """List plugins in a child process, with only this one enabled, and check what it imports."""
    registry = discover()
    spec = registry.get(kind, name)
    (record,) = (record for record in registry.records if spec in record.specs)
    given = record.plugin and record.plugin.given
    if given is not None and not isinstance(given, ModuleType):
        skip("the plugin is an object: give the module that it is to be published in")
    imported = heavy_imports(record)
    assert not imported, (
        f"the plugin {record.name!r} imports {', '.join(imported)} when plugins are listed. Import "
        "inside functions, or in the factory's module, which an import string names."
    )


def heavy_imports(record: PluginRecord) -> list[str]:
    """Return what heavy a plugin's module imports in a child process that lists it alone."""
    requires = record.plugin.requires if record.plugin is not None else ()
    heavy = {"gymnasium", "jax", "numpy", "torch"}
    heavy |= {each.name.replace("-", "_") for each in adapted(requires, record.name)}
    variables = {"PYTHONPATH": os.pathsep.join(sys.path), "RLTRAIN_PLUGINS": record.name}
    child = subprocess.run(
        [sys.executable, "-c", _DECLARE, *sorted(heavy)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not child.returncode, child.stderr
    return child.stdout.split()

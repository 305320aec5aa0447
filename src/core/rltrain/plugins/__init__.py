"""What is installed: plugins, their status and what they provide; the plugins of one run.

What commands use of them is named here; the modules below are the core's own.
"""

from rltrain.plugins.installed import adapted, given
from rltrain.plugins.manager import exporters, usual_of
from rltrain.plugins.registry import PluginRecord, Registry, discover

__all__ = [
    "PluginRecord",
    "Registry",
    "adapted",
    "discover",
    "exporters",
    "given",
    "usual_of",
]

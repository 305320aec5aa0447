"""What is installed: plugins, their status and what they provide; the plugins of one run.

What commands use of them is named here; the modules below are the core's own.
"""

from rltrain.plugins.installed import Installed, adapted
from rltrain.plugins.manager import exporters
from rltrain.plugins.registry import PluginRecord, Registry, discover
from rltrain.plugins.uninstalled import given
from rltrain.plugins.usual import usual_of

__all__ = [
    "Installed",
    "PluginRecord",
    "Registry",
    "adapted",
    "discover",
    "exporters",
    "given",
    "usual_of",
]

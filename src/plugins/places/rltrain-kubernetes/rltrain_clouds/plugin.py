"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import ClusterSpec
from rltrain_clouds.clusters import CLUSTERS


@hookimpl
def rltrain_provides() -> list[ClusterSpec]:
    """Declare the clusters."""
    return CLUSTERS

"""The options of a run, and the resolved run that each rank receives."""

from rltrain.config.run import Placement, RunConfig, endpoint

__all__ = ["Placement", "RunConfig", "endpoint"]

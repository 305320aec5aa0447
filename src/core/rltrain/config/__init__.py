"""The options of a run, and the resolved run that each rank receives."""

from rltrain.config.options import DEFAULT_TASK
from rltrain.config.run import Placement, RunConfig, endpoint

__all__ = ["DEFAULT_TASK", "Placement", "RunConfig", "endpoint"]

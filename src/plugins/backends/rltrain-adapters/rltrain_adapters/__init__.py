"""What plugins share that adapt a library, a framework or a suite.

`rltrain_adapters.sources` reads packages' sources, and `rltrain_adapters.unpickling` pickled files.
"""

from rltrain_adapters.drawing import cannot_draw, check_mujoco_draws
from rltrain_adapters.given import as_given
from rltrain_adapters.options import get_positive_int, is_image, set_child, unknown_env_option
from rltrain_adapters.played import still_there
from rltrain_adapters.tuned import MANY_ENVS, tuned_in

__all__ = [
    "MANY_ENVS",
    "as_given",
    "cannot_draw",
    "check_mujoco_draws",
    "get_positive_int",
    "is_image",
    "set_child",
    "still_there",
    "tuned_in",
    "unknown_env_option",
]

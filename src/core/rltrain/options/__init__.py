"""Options: of the run, of the library and of the task.

What plugins use of them is named here; the modules below are the core's own.
"""

from rltrain.options.dotted import flatten, get_dotted, overlaid, set_dotted
from rltrain.options.files import load_yaml
from rltrain.options.run import DEFAULT_TASK, RunOptions
from rltrain.options.tuned import tuned_in

__all__ = [
    "DEFAULT_TASK",
    "RunOptions",
    "flatten",
    "get_dotted",
    "load_yaml",
    "overlaid",
    "set_dotted",
    "tuned_in",
]

"""Options: of the run, of the library and of the task.

What plugins use of them is named here; the modules below are the core's own.
"""

from rltrain.config.checks import flag
from rltrain.config.declare import Group, Scope, naming, scoped
from rltrain.config.options import DEFAULT_TASK
from rltrain.files.dotted import flatten, get_dotted, leaves, overlaid, set_dotted
from rltrain.files.secrets import hide, hide_in_text, hide_words
from rltrain.files.yaml import load_yaml
from rltrain.options.agent import default_options, nested_env, resolve_env
from rltrain.options.run import RunOptions

__all__ = [
    "DEFAULT_TASK",
    "Group",
    "RunOptions",
    "Scope",
    "default_options",
    "flag",
    "flatten",
    "get_dotted",
    "hide",
    "hide_in_text",
    "hide_words",
    "leaves",
    "load_yaml",
    "naming",
    "nested_env",
    "overlaid",
    "resolve_env",
    "scoped",
    "set_dotted",
]

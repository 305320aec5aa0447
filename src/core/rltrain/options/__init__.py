"""Options: of the run, of the library and of the task.

What plugins use of them is named here; the modules below are the core's own.
"""

from rltrain.options.agent import nested_env, resolve_env
from rltrain.options.checks import flag
from rltrain.options.declare import naming
from rltrain.options.run import DEFAULT_TASK, RunOptions
from rltrain.options.user_config import saved_variables, unset, user_config_file
from rltrain_files.dotted import flatten, get_dotted, leaves, overlaid, set_dotted
from rltrain_files.secrets.hiding import hide, hide_in_text, hide_words
from rltrain_files.yaml import load_yaml

__all__ = [
    "DEFAULT_TASK",
    "RunOptions",
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
    "saved_variables",
    "set_dotted",
    "unset",
    "user_config_file",
]

"""Imports what every rank imports, once for all ranks; see `LibrarySpec.preload`."""

from rltrain_rsl_rl.adapter import prepare_import

prepare_import()

import rltrain_rsl_rl.runner  # noqa: E402, F401

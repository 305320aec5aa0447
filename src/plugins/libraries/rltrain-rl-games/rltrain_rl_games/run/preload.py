"""Imports what a rank on the CPU imports, once for all ranks; see `LibrarySpec.preload`."""

import torch

# Before, torch's compiler, which rl_games imports, starts a thread (seen in 2.7.0).
if torch.__version__ >= "2.9":
    import rltrain_rl_games.run.library  # noqa: F401

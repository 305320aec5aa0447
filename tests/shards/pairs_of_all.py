"""The options of all libraries, to be combined."""

from __future__ import annotations

from pairs_rl_games import RL_GAMES
from pairs_rsl_rl import RSL_RL
from pairs_skrl import SKRL

TABLES = (*RL_GAMES, *RSL_RL, *SKRL)

"""The options of all libraries, to be combined."""

from __future__ import annotations

from pairs_rl_games import RL_GAMES

__all__ = ["TABLES"]

TABLES = (*RL_GAMES,)

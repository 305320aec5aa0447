from __future__ import annotations

from rltrain.testing import LibraryConformance


class TestRlGames(LibraryConformance):
    library = "rl_games"
    agent = {"params.config.horizon_length": 8, "params.config.minibatch_size": 32}

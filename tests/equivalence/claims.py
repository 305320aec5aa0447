"""What is claimed to learn on N ranks as on one. Each claim is a test, and a line of the table."""

from __future__ import annotations

from claim import Claim
from claims_rl_games import RL_GAMES
from claims_rsl_rl import RSL_RL
from claims_skrl import SKRL

CLAIMS: tuple[Claim, ...] = (*RL_GAMES, *RSL_RL, *SKRL)


def of_each_algorithm() -> list[Claim]:
    first: dict[tuple[str, str], Claim] = {}
    for claim in CLAIMS:
        first.setdefault((claim.library, claim.algorithm), claim)
    return list(first.values())

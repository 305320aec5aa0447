"""Every public options file of Isaac Lab works, or is refused with the reason."""

from __future__ import annotations

import pytest
from outcomes import WORKS, all_outcomes

pytestmark = [pytest.mark.long, pytest.mark.corpus, pytest.mark.timeout(900)]

EXPECTED = {
    "rl_games": {WORKS: 37},
    "rsl_rl": {WORKS: 59},
    "skrl": {
        WORKS: 67,
        "refused: agent.class=AMP": 3,
        "refused: agent.class=IPPO": 2,
        "refused: agent.class=MAPPO": 2,
    },
}
"""What docs/isaaclab.md says, which `python tests/corpus/table.py` prints."""


@pytest.mark.parametrize("library", EXPECTED)
def test_every_file_works_or_is_refused_with_the_reason(library, wheel, tmp_path):
    pytest.importorskip(library)
    odd = []

    def note(file, came):
        if came not in EXPECTED[library]:
            odd.append(f"{file.name}: {came}")

    counts = all_outcomes(library, wheel, tmp_path, note)
    assert not odd
    assert counts == EXPECTED[library]

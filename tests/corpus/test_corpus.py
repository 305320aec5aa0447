"""Every public options file of Isaac Lab works, or is refused with the reason."""

from __future__ import annotations

import pytest
from outcomes import WORKS, all_outcomes

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(900)]

REFUSED = {
    "refused: agent.class=AMP": 3,
    "refused: agent.class=IPPO": 2,
    "refused: agent.class=MAPPO": 2,
}
EXPECTED = {
    ("2.3.2.post1", "rl_games"): {WORKS: 37},
    ("2.3.2.post1", "rsl_rl"): {WORKS: 59},
    ("2.3.2.post1", "skrl"): {WORKS: 67, **REFUSED},
    ("3.0.0", "rl_games"): {WORKS: 34},
    ("3.0.0", "skrl"): {WORKS: 66, **REFUSED},
}
"""What docs/isaaclab.md says."""


@pytest.mark.parametrize(("version", "library"), EXPECTED)
def test_every_file_works_or_is_refused_with_the_reason(version, library, wheels, tmp_path):
    pytest.importorskip(library)
    expected, odd = EXPECTED[version, library], []

    def note(file, came):
        if came not in expected:
            odd.append(f"{file.name}: {came}")

    counts = all_outcomes(library, wheels(version), tmp_path, note)
    assert not odd
    assert counts == expected

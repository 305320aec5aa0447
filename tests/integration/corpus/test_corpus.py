"""Every options file and checkpoint that others wrote is used, or refused with the reason."""

from __future__ import annotations

import pytest
from checkpoints import LATE, USED, files, outcomes
from outcomes import WORKS, all_outcomes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

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


@pytest.mark.network
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


NOT_USED = {
    "of another task": "size mismatch",
    "of smaller networks": "Missing key",
    "of rsl_rl": "It looks like one of rsl_rl: try --library rsl_rl",
    "of skrl": "It looks like one of skrl: try --library skrl",
    "of rl_games": "It looks like one of rl_games: try --library rl_games",
    "weights alone": "this is not a checkpoint of rsl_rl",
    "a whole module": "loading it would run code (torch.nn.modules.linear.Linear)",
    "an exported policy": "Name the checkpoint from which it was exported",
    "an archive of another library": "it cannot be read as a checkpoint",
    "an empty file": "it is empty",
    "a pointer of Git LFS": "git lfs pull",
    "a folder": "is a folder",
    "a file that was renamed": "there is no such file",
}
"""By file, a part of the reason."""


def test_checkpoints_of_others_are_used_or_refused_before_ranks_start(tmp_path):
    pytest.importorskip("rl_games"), pytest.importorskip("rsl_rl"), pytest.importorskip("skrl")
    wrong = []
    for (library, what), path in files(tmp_path).items():
        for did in outcomes(library, path, tmp_path):
            part = NOT_USED.get(what, USED)
            if part not in did or LATE in did or "\n" in did or len(did) > 500:
                wrong.append((library, what, did))
    assert not wrong

"""Every file that others wrote is used, or refused before ranks start, in one line."""

from __future__ import annotations

import pytest
from checkpoints import LATE, USED, files, outcomes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REFUSED = {
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


def test_files_of_others_are_used_or_refused_before_ranks_start(tmp_path):
    pytest.importorskip("rl_games"), pytest.importorskip("rsl_rl"), pytest.importorskip("skrl")
    wrong = []
    for (library, what), path in files(tmp_path).items():
        for did in outcomes(library, path, tmp_path):
            part = REFUSED.get(what, USED)
            if part not in did or LATE in did or "\n" in did or len(did) > 500:
                wrong.append((library, what, did))
    assert not wrong

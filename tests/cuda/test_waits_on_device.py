"""No library waits for its GPU more often under rltrain than by itself."""

from __future__ import annotations

import pytest
from benchmarks import alone
from on_device import AGENTS, KIND


@pytest.mark.parametrize("library", alone.LIBRARIES)
def test_an_iteration_waits_no_more_often_than_the_librarys_own(library, tmp_path):
    device, found = KIND if KIND == "cpu" else f"{KIND}:0", {}
    for how in ("native", "rltrain"):
        agent = {**AGENTS[library]}
        if library == "skrl":
            agent["agent.experiment"] = {"checkpoint_interval": 0}
        with alone.waits(device) as waits:
            alone.train(how, library, device, 64, 4, str(tmp_path / how), waits.lap, agent)
        found[how] = waits.iteration
    ours = {place: n for place, n in found["rltrain"].items() if place not in found["native"]}
    by_us = {place: n for place, n in ours.items() if place.startswith("rltrain")}
    assert sum(by_us.values()) <= 1, by_us  # The iteration's returns and lengths.
    assert sum(found["rltrain"].values()) <= sum(found["native"].values()), (ours, found)
    assert sum(found["native"].values()) > 0, "nothing was counted"

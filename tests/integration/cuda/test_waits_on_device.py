"""Waits for the GPU: as few as the library's own in an iteration, and one in a divergence check."""

from __future__ import annotations

import pytest
import torch
from benchmarks import alone
from on_device import AGENTS, KIND, gpu_only

from rltrain_torch.optimizers import device_checksum, fingerprints


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
def test_a_gpu_computes_the_checksums_that_the_cpu_does(dtype):
    x = torch.randn(100_003, dtype=torch.float64).mul(1e3).to(dtype)
    assert int(device_checksum(x.to(KIND))) == int(device_checksum(x))
    y = x.clone()
    y[77_777] += 1000
    assert int(device_checksum(y.to(KIND))) != int(device_checksum(x))


@gpu_only
def test_a_check_waits_once_and_copies_no_parameters():
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).to(KIND)
    fingerprints(model.named_parameters())
    with alone.waits(KIND) as found:
        made = fingerprints(model.named_parameters())
    assert sum(found.places.values()) == 1, found.places
    assert len(set(made.values())) == len(made) == 16
    with torch.profiler.profile() as profile:
        fingerprints(model.named_parameters())
    copies = [event for event in profile.events() if "Memcpy DtoH" in event.name]
    assert len(copies) == 1, copies

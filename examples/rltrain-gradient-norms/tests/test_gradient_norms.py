from __future__ import annotations

import csv
from pathlib import Path

import pytest

import rltrain
from rltrain.errors import UsageError
from rltrain_devkit import ObserverConformance
from rltrain_gradient_norms.observer import GradientNorms


class TestGradientNorms(ObserverConformance):
    observer = "gradient_norms"


def test_each_rank_has_its_own_norms_and_all_the_same_average(fake_world):
    options = {"library": "rl_games", "num_envs": 8, "max_iterations": 2}
    runs = fake_world(2).train(**options, observers=[GradientNorms])
    folder = Path(runs[0].result.run_dir)
    found = []
    for rank in range(2):
        with (folder / f"gradients.{rank}.csv").open() as file:
            found.append(list(csv.DictReader(file)))
    first, second = found
    assert len(first) == len(second) > 2
    assert [row["average"] for row in first] == [row["average"] for row in second]
    assert any(row["own"] != other["own"] for row, other in zip(first, second, strict=True))


def test_a_run_of_jax_is_refused():
    with pytest.raises(UsageError, match="gradient_norms reads gradients of torch"):
        rltrain.train(library="skrl", framework="jax", observers=["gradient_norms"])

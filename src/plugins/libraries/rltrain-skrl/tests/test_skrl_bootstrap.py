"""Importing has no side effects, and skrl knows its rank only during a run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rltrain.types import World
from rltrain_skrl.run import bootstrap


def in_child(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def modules_of(*folders):
    """Return the code that imports the modules of folders, and prints how many there are."""
    return f"""
import importlib, pkgutil, sys
count = 0
for folder in {folders}:
    package = importlib.import_module(f"rltrain_skrl.{{folder}}")
    for module in pkgutil.iter_modules(package.__path__):
        if not module.ispkg and module.name not in ("torch", "jax"):
            importlib.import_module(f"{{package.__name__}}.{{module.name}}")
            count += 1
print(count > 2, sorted({{"torch", "skrl", "jax", NAMES}} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("folders", "more"), [(("declare",), '"gymnasium", "numpy"'), (("run", "policy"), "")]
)
def test_shared_modules_import_neither_framework(folders, more):
    assert in_child(modules_of(*folders).replace("NAMES", more)) == "True []"


@pytest.mark.slow
@pytest.mark.parametrize("module", ["run.library", "run.bootstrap", "run.torch.runner"])
def test_importing_under_rank_variables_makes_no_process_group(module):
    code = f"""
import os
import rltrain_skrl.{module}
from rltrain_skrl.run.bootstrap import import_skrl
skrl = import_skrl()
import torch
started = torch.distributed.is_initialized()
print(started, skrl.config.torch.is_distributed, os.environ["WORLD_SIZE"])
"""
    rank = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    variables = rank | {f"JAX_{name}": value for name, value in rank.items()}
    assert in_child(code, **variables) == "False False 2"


def test_skrl_has_the_place_of_the_current_run_only(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "9")
    skrl = bootstrap.import_skrl()
    stock = skrl.config.torch
    outer = World(rank=3, local_rank=1, world_size=4, device="cpu")
    with bootstrap.configured(outer):
        place = skrl.config.torch
        assert vars(place).keys() >= vars(stock).keys()
        assert (place.rank, place.local_rank, place.world_size) == (3, 1, 4)
        assert (place.is_distributed, str(place.device)) == (True, "cpu")
        with bootstrap.configured(World()):
            assert not skrl.config.torch.is_distributed
        assert skrl.config.torch is place
    assert skrl.config.torch is stock


def test_the_place_is_restored_after_an_error():
    skrl = bootstrap.import_skrl()
    stock = skrl.config.torch
    with pytest.raises(KeyError), bootstrap.configured(World(world_size=2)):
        raise KeyError
    assert skrl.config.torch is stock

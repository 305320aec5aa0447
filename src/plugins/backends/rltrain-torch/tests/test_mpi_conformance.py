"""Backend and launcher pass their kits, and what libraries call of torch.distributed works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rltrain.errors import UsageError
from rltrain_devkit import BackendConformance, LauncherConformance

pytest.importorskip("mpi4py")

from rltrain_mpi.launcher import mpiexec
from rltrain_mpi.plugin import MpiOptions

pytestmark = pytest.mark.slow

try:
    MPIEXEC = mpiexec(MpiOptions())
except UsageError as error:
    pytest.skip(str(error), allow_module_level=True)

RANKS = 3


class TestMpi(BackendConformance):
    backend = "mpi"
    started_by = (*MPIEXEC, "-n", "{ranks}")


class TestMpiexec(LauncherConformance):
    launcher = "mpi"
    options = {"backend": "mpi"}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """By collective, what each of three ranks has got."""
    folder = tmp_path_factory.mktemp("mpi")
    program = (sys.executable, str(Path(__file__).with_name("mpi_ranks.py")), str(folder))
    started = (*MPIEXEC, "-n", str(RANKS), *program)
    done = subprocess.run(started, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    of_ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]
    return {name: [each[name] for each in of_ranks] for name in of_ranks[0]}


@pytest.mark.parametrize(
    ("name", "of_ranks"),
    [
        ("sum of float32", [[6.0, -6.0]] * RANKS),
        ("mean of float32", [[2.0, -2.0]] * RANKS),
        ("max of int64", [[3, -1]] * RANKS),
        ("min of bool", [[False, True]] * RANKS),
        ("sum of bfloat16", [[6.0, -6.0]] * RANKS),
        ("sum of a column", [[6.0, -6.0]] * RANKS),
        ("sum without waiting", [[6.0, -6.0]] * RANKS),
        ("sum of a parameter", [[6.0, -6.0]] * RANKS),
        ("broadcast", [[2.0, -2.0]] * RANKS),
        ("all_gather", [[[1.0], [2.0], [3.0]]] * RANKS),
        ("all_gather_into_tensor", [[1.0, 2.0, 3.0]] * RANKS),
        ("gather", [[], [[1.0], [2.0], [3.0]], []]),
        ("all_gather_object", [["a", "aa", "aaa"]] * RANKS),
        ("broadcast_object_list", [["a", 1]] * RANKS),
        ("sum of the outer ranks", [4.0, None, 4.0]),
        ("sum over reversed ranks", [6.0] * RANKS),
        ("group of the default name", ["rltrain_mpi"] * RANKS),
    ],
)
def test_what_libraries_call_of_torch_distributed(found, name, of_ranks):
    assert found[name] == of_ranks


def test_what_is_missing_is_named(found):
    (message,) = set(found["send"])
    assert message.startswith("The backend mpi has no send.")
    assert message.endswith("Choose --backend gloo.")

"""What the launcher is asked for and refuses. Real ranks: tests/integration/test_mpi_backend.py."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from multiprocessing.connection import wait

import pytest
from messages import says

from rltrain.config import Placement
from rltrain.errors import RankFailed, UsageError
from rltrain.plan.resolve import make_plan
from rltrain.plan.table import plan_table

pytest.importorskip("mpi4py")

from rltrain_mpi.backend import about
from rltrain_mpi.launcher import Console, MpiLauncher, mpiexec
from rltrain_mpi.plugin import MpiOptions

RUN = {"library": "rsl_rl", "distributed": True, "nproc_per_node": 2, "writers": ["console"]}


def test_the_backend_is_never_chosen_silently_and_brings_its_launcher():
    assert make_plan(RUN, {}).config.backend == "gloo"
    plan = make_plan({**RUN, "backend": "mpi"}, {})
    assert (plan.config.backend, plan.config.launcher) == ("mpi", "mpi")
    assert "2 on this node, started by mpi" in plan_table(plan)


@pytest.mark.parametrize(
    "options",
    [
        {"mpi.mpiexec": "mpirun 'a"},
        # Several nodes are for the site's own command.
        {"nnodes": 2, "node_rank": 0},
    ],
)
def test_wrong_options_are_refused(options):
    with says(UsageError):
        make_plan({**RUN, "backend": "mpi", **options}, {})


def test_ranks_of_another_backend_are_refused():
    with says(UsageError):
        MpiLauncher(MpiOptions()).launch(Placement(backend="gloo", nproc_per_node=2), print)


def test_ranks_on_several_nodes_need_no_address():
    of_hydra = {"PMI_RANK": 3, "PMI_SIZE": 4, "MPI_LOCALRANKID": 1, "MPI_LOCALNRANKS": 2}
    environ = {name: str(value) for name, value in of_hydra.items()}
    asked = {"library": "rsl_rl", "distributed": True, "writers": ["console"]}
    plan = make_plan({**asked, "backend": "mpi"}, environ)
    assert plan.world is not None
    assert (plan.world.rank, plan.world.node_rank, plan.world.num_nodes) == (3, 1, 2)
    with says(UsageError):
        make_plan(asked, environ)


def test_without_mpiexec_it_says_what_to_install(monkeypatch, tmp_path):
    with says(UsageError):
        mpiexec(MpiOptions(mpiexec="nothere --flag"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with says(UsageError):
        mpiexec(MpiOptions())


def test_what_mpiexec_prints_is_shown_if_no_rank_started(tmp_path):
    command = f"'{sys.executable}' -c 'import sys; sys.exit(\"no slots are free\")'"
    with says(RankFailed):
        MpiLauncher(MpiOptions(mpiexec=command)).launch(
            Placement(backend="mpi", nproc_per_node=2), print
        )


def test_a_rank_ends_even_if_its_launcher_ended_before_it_read_its_number(tmp_path):
    code = "import pathlib, sys, time; from rltrain_mpi.rank import join_console\n"
    code += "join_console(pathlib.Path(sys.argv[1]))(7); time.sleep(60)"
    with contextlib.closing(Console(tmp_path)) as console:
        rank = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
        for _ in ("it connects", "it sends its number"):
            (ready,) = wait(console.sockets, 30)
            if ready is console.sockets[0]:
                console.handle(ready)
    try:
        assert rank.wait(timeout=10) == 1
    finally:
        rank.kill()
        rank.wait()


def test_the_doctor_is_told_which_mpi_there_is():
    assert all(about()[name] for name in ("mpi4py", "MPI"))

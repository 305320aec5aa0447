"""A backend whose ranks cannot communicate until a variable is set, and a launcher of one rank."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from pathlib import Path

from rltrain.hookspecs import hookimpl
from rltrain.ranks.reports import failure
from rltrain.ranks.world import rank_variables
from rltrain.run.group import SingleProcess
from rltrain.specs import BackendSpec, DoctorChecks, LauncherSpec
from rltrain.types import TrainResult, World

FALLBACKS = ({"FLAKY_FIRST": "1"}, {"FLAKY_SECOND": "1"}, {"FLAKY_THIRD": "1"})


@hookimpl
def rltrain_provides():
    flaky = {"framework": "numpy", "device": "cpu", "launcher": "one"}
    return [
        BackendSpec(name="raises", factory="flaky_plugin:Raises", **flaky),
        BackendSpec(name="hangs", factory="flaky_plugin:Hangs", **flaky),
        LauncherSpec(name="one", factory="flaky_plugin:OneRank", frameworks=("numpy",)),
    ]


@hookimpl
def rltrain_checkup():
    return DoctorChecks(remedies=dict.fromkeys(("raises", "hangs"), FALLBACKS))


class Steady:
    """Works with the second or the third variable."""

    @hookimpl
    def rltrain_init_distributed(self, world):
        if "FLAKY_SECOND" not in os.environ and "FLAKY_THIRD" not in os.environ:
            return self.fail(world)
        return SingleProcess(world.device)

    @hookimpl
    def rltrain_seed(self, seed):
        pass

    @hookimpl
    def rltrain_wrap_model(self, model):
        return model


class Raises(Steady):
    def fail(self, world):
        raise RuntimeError("the transport is broken")


class Hangs(Steady):
    def fail(self, world):
        # In the temporary folder, where the test looks for leftover processes.
        Path(os.environ["FLAKY_PIDS"], str(os.getpid())).touch()
        time.sleep(600)


class OneRank:
    """Starts one rank, in a process of its own."""

    def launch(self, config, work):
        os.environ.update(rank_variables(World()))
        with tempfile.TemporaryDirectory() as reports:
            rank = multiprocessing.get_context("fork").Process(target=work, args=(config, reports))
            rank.start()
            rank.join()
            if rank.exitcode != 0:
                raise failure(Path(reports), 0, rank.exitcode)
        return TrainResult(0, 0, None, None, run_dir="")

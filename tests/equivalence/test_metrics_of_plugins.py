"""An observer and a gradient sync put numbers into the metrics of a run."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from rltrain import hookimpl
from rltrain.records import Scalars
from rltrain.specs import GradientSyncSpec
from rltrain.testing import FakeWorld


@hookimpl
def rltrain_provides():
    factory = f"{__name__}:CountedMean"
    return [GradientSyncSpec(name="counted", factory=factory, frameworks=("torch",))]


class CountedMean:
    @hookimpl
    def rltrain_gradient_sync(self, session):
        def average(gradients):
            session.add_metric("sync/bytes (sum)", sum(x.nbytes for x in gradients))
            session.add_metric("sync/norm", gradients[0].norm())
            return [session.group.all_reduce(x, "mean") for x in gradients]

        return average


class Watches:
    def __init__(self):
        self.records = []

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session):
        env = yield
        step = env.step

        def counted(actions):
            session.add_metric("env/actions", float(np.abs(session.to_host(actions)).mean()))
            return step(actions)

        env.step = counted
        return env

    @hookimpl
    def rltrain_write(self, record):
        if isinstance(record, Scalars):
            self.records.append(record.values)


@pytest.mark.slow
def test_numbers_of_an_observer_and_of_a_gradient_sync_are_recorded(tmp_path):
    where = {"plugins": [sys.modules[__name__]], "log_root": str(tmp_path)}
    options = {"library": "rsl_rl", "grad_sync": "counted", "num_envs": 8, "max_iterations": 2}
    runs = FakeWorld(2).train(observers=[Watches], **options, **where)
    first, second = runs[0].observers[0].records
    assert first["sync/bytes (sum)"] == second["sync/bytes (sum)"] > 0
    assert first["sync/norm"] > 0
    assert first["env/actions"] != second["env/actions"]

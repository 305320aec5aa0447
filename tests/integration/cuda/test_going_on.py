"""Seeds, exact resume, and checkpoints that cross from GPU to CPU and back."""

from __future__ import annotations

import pytest
import torch
from on_device import AGENTS, KIND, LIBRARIES, differing, tensors, train

from rltrain import hookimpl
from rltrain.plan.resolve import make_plan
from rltrain.run.worker import make_session


@pytest.mark.parametrize("library", LIBRARIES)
def test_runs_with_the_same_seed_and_resumed_runs_end_equal(library, tmp_path):
    whole = tensors(train(library, tmp_path / "a", max_iterations=4).checkpoint)
    again = tensors(train(library, tmp_path / "b", max_iterations=4).checkpoint)
    assert differing(whole, again) == []
    half = train(library, tmp_path / "c", max_iterations=2)
    resumed = train(library, tmp_path / "c", max_iterations=4, checkpoint=half.checkpoint)
    assert resumed.iterations == 2
    assert differing(whole, tensors(resumed.checkpoint)) == []
    other = tensors(train(library, tmp_path / "d", max_iterations=4, seed=7).checkpoint)
    assert differing(whole, other)


class Started:
    """Keeps the models as they are at the first step."""

    def __init__(self):
        self.models, self.state = [], None

    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self):
        model = yield
        self.models.append(model)
        return model

    @hookimpl(wrapper=True)
    def rltrain_make_env(self):
        env = yield
        step = env.step

        def first(actions):
            if self.state is None:
                self.state = [x.detach().cpu().clone() for m in self.models for x in m.parameters()]
                self.devices = {x.device.type for m in self.models for x in m.parameters()}
            return step(actions)

        env.step = first
        return env


def resume_on(library, device, checkpoint, iterations, folder):
    plan = make_plan(
        {
            "library": library,
            "device": device,
            "num_envs": 16,
            "writers": (),
            "agent": AGENTS[library],
            "checkpoint": checkpoint,
            "max_iterations": iterations,
            "log_root": str(folder),
        },
        {},
    )
    started = Started()
    result = make_session(plan.config, plan.world, plan.registry, [("started", started)]).run()
    return started, result


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("way", [(KIND, "cpu"), ("cpu", KIND)], ids=["to the CPU", "from the CPU"])
def test_a_checkpoint_crosses_to_another_device_and_back(library, way, tmp_path):
    first, second = way
    result = train(library, tmp_path, first, max_iterations=1)
    for iterations, device in ((2, second), (3, first)):
        saved = tensors(result.checkpoint).values()
        frames = result.frames
        started, result = resume_on(library, device, result.checkpoint, iterations, tmp_path)
        assert started.devices == {device}
        assert started.state
        for parameter in started.state:
            assert any(torch.equal(parameter, x) for x in saved), "a parameter was not loaded"
        assert (result.iterations, result.frames) == (1, frames + 16 * 8)

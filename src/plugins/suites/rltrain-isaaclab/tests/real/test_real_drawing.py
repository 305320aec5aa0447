"""Frames come from a visualizer without a window; what cannot be shown is refused."""

from __future__ import annotations

import pytest

from rltrain.errors import UsageError
from rltrain_isaaclab import drawing


def test_a_visualizer_draws_without_a_window(make):
    import torch

    if drawing.lacking("newton_gl"):
        pytest.skip(drawing.lacking("newton_gl"))
    env = make("Isaac-Cartpole-Direct", renders=True)
    env.reset(seed=1)
    frames = []
    for _ in range(2):
        for _ in range(5):
            env.step(torch.ones(env.action_space.shape))
        frames.append(env.render()[0])
    assert {frame.shape for frame in frames} == {(720, 1280, 3)}
    assert frames[0].std() > 1
    assert (frames[0] != frames[1]).any()
    assert [each.headless for each in env.cfg.sim.visualizer_cfgs] == [True]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"viz": "newton_gl,no"}, r"env\.viz=no: must be one or more of kit, newton_gl"),
        ({"viz": "kit"}, r"env\.viz=kit: Isaac Lab's visualizer kit needs isaacsim, which is not"),
        ({"video_source": "eye"}, r"env\.video_source='eye': must be visualizer:TYPE"),
    ],
)
def test_what_cannot_be_shown_is_refused(options, reason):
    with pytest.raises(UsageError, match=reason):
        drawing.check(options)


@pytest.mark.parametrize(
    ("name", "port", "readers"),
    # rerun's servers take no interface.
    [("viser", "port", "for this machine"), ("rerun", "web_port", "for all who reach this")],
)
def test_the_address_of_a_page_is_shown_and_who_may_read_it(capsys, name, port, readers):
    class Settings:
        sim = type("Sim", (), {"visualizer_cfgs": []})

    pytest.importorskip("viser")
    drawing.prepare(Settings(), [name], None, windows=False)
    [page] = Settings.sim.visualizer_cfgs
    assert (page.visualizer_type, page.bind_address) == (name, "127.0.0.1")
    assert f"http://127.0.0.1:{getattr(page, port)}, {readers}" in capsys.readouterr().out

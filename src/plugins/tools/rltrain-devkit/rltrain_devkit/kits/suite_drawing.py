"""The rules of rendering, for videos."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from rltrain.errors import UsageError
from rltrain.options import resolve_env
from rltrain_devkit.kits.rules import may, must, skip
from rltrain_devkit.kits.suite_rollout import STEPS, UNREPEATED, Player, first_difference, table
from rltrain_devkit.kits.suite_settings import SuiteSettings

DRAWN = 3
"""Number of rendered steps; some environments take seconds for a frame."""


class DrawingRules(SuiteSettings):
    """The part of `SuiteConformance` that checks frames, if `SuiteSpec.renders`."""

    @must("If session.renders, render() returns a tuple of frames, uint8 (height, width, 3).")
    def test_environments_are_drawn(self) -> None:
        """The first is recorded. Skipped if the suite does not render, or cannot do so here."""
        import numpy as np

        with self._drawn() as player:
            player.reset(seed=0)
            shapes = set()
            for _ in range(DRAWN):
                frames = player.env.render()
                assert isinstance(frames, tuple), f"it returned a {type(frames).__name__}."
                frame = frames[0]
                assert isinstance(frame, np.ndarray), f"a frame is a {type(frame).__name__}."
                assert frame.dtype == np.uint8, f"a frame has dtype {frame.dtype}."
                assert frame.shape[2:] == (3,), f"a frame has shape {frame.shape}."
                shapes.add(frame.shape)
                player.step()
        assert len(shapes) == 1, f"frames have shapes {sorted(shapes)}; all must be the same."

    @must("Rendering changes nothing: steps are bitwise equal to those of a run without it.")
    def test_drawing_changes_nothing(self) -> None:
        """It must not use the environments' random numbers. Skipped as above."""
        with self._drawn() as player:
            seen = [player.reset(seed=0)]
            for _ in range(DRAWN):
                player.env.render()
                seen.append(player.step())
            seen += player.steps(STEPS)
        with self.player() as player:
            unseen, again = (table(player.play(DRAWN + STEPS, seed=0)) for _ in range(2))
        if first_difference(unseen, again) is not None:
            skip(UNREPEATED)
        difference = first_difference(unseen, table(seen))
        assert difference is None, f"without rendering and with it, {difference}."

    @may("mujoco_scene(i) gives environment i's MjModel and MjData, and changes nothing.")
    def test_mujoco_scene(self) -> None:
        """Skipped if the environment does not have it, which `SuiteSpec.mujoco_scenes` denies."""
        with self.player() as player:
            seen = [player.reset(seed=0)]
            assert not self.spec().mujoco_scenes or hasattr(player.env.unwrapped, "mujoco_scene"), (
                "SuiteSpec.mujoco_scenes is set, and the environment does not have it."
            )
            scene = self.offered(player.env, "mujoco_scene")
            places = []
            for _ in range(DRAWN):
                places.append([_configuration(*scene(i)) for i in range(player.env.num_envs)])
                seen.append(player.step())
            seen += player.steps(STEPS)
        # Environments that are all the same break another rule.
        differ = self.varies and len({tuple(each) for each in table(seen[:1])[0].tolist()}) > 1
        assert not differ or len({tuple(each) for each in places[0]}) > 1, (
            f"all environments have the configuration {places[0][0]} after a reset."
        )
        assert places[0] != places[-1], f"after {DRAWN - 1} steps it is what it was."
        with self.player() as player:
            unseen, again = (table(player.play(DRAWN + STEPS, seed=0)) for _ in range(2))
        if first_difference(unseen, again) is not None:
            skip(UNREPEATED)
        difference = first_difference(unseen, table(seen))
        assert difference is None, f"without looking and with it, {difference}."

    @contextmanager
    def _drawn(self) -> Iterator[Player]:
        """Make the environments of a run that renders them."""
        if not self.spec().renders:
            skip("the suite does not render its environments")
        try:
            made = self.make(resolve_env(self.info(), self.env), renders=True)
        except UsageError as error:
            skip(str(error))
        with closing(made) as env:
            yield Player(env, self.framework, self.device)


def _configuration(model: Any, data: Any) -> list[float]:
    """Return the joints' positions in a scene."""
    kinds = type(model).__name__, type(data).__name__
    assert kinds == ("MjModel", "MjData"), f"it gives a {kinds[0]} and a {kinds[1]}."
    assert data.qpos.shape == (model.nq,), "the data do not belong to the model."
    positions: list[float] = data.qpos.tolist()
    return positions

"""The rules of spaces: allowed kinds, agreement with the description, meaning of bounds."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from rltrain.options import overlaid, resolve_env
from rltrain.types import ArrayInfo
from rltrain_devkit.kits import arrays as kit_arrays
from rltrain_devkit.kits.rules import may, must, skip
from rltrain_devkit.kits.suite_rollout import UNREPEATED, Player, first_difference, groups, table
from rltrain_devkit.kits.suite_settings import SuiteSettings

_DTYPES = {1: ("float32",), 3: ("float32", "uint8")}
"""Allowed dtypes of observations, by their number of axes."""

_KINDS = {"Box": "continuous", "Discrete": "discrete", "MultiDiscrete": "multi_discrete"}


class SpaceRules(SuiteSettings):
    """The part of `SuiteConformance` that checks spaces."""

    @must("Observations are a Box, or a Dict of Boxes with a `policy`; each is a vector or image.")
    def test_observation_spaces(self) -> None:
        """Images have three axes, channels last; libraries divide bytes by 255."""
        with self.environment() as env:
            space = env.single_observation_space
        parts = groups(space, "single_observation_space")
        if hasattr(space, "spaces"):
            assert "policy" in space.spaces, f"its groups are {sorted(space.spaces)}: no 'policy'."
        for name, part in parts.items():
            assert type(part).__name__ == "Box", f"{name} is {part}; must be a Box."
            assert str(part.dtype) in _DTYPES.get(len(part.shape), ()), (
                f"{name} is {part}; must be a vector of float32, or an image with height, width "
                "and channels, of uint8 or float32."
            )
            if str(part.dtype) == "uint8":
                bounds = {int(part.low.min()), int(part.low.max()), int(part.high.min())}
                assert bounds == {0, 255}, f"{name} is {part}: images of bytes go from 0 to 255."

    @must("Actions are a Box with one axis, Discrete from 0, or MultiDiscrete with one axis.")
    def test_action_space(self) -> None:
        """Every library supports these."""
        with self.environment() as env:
            space = env.single_action_space
        assert type(space).__name__ in _KINDS, f"it is {space}; must be one of {list(_KINDS)}."
        assert len(space.shape) == (type(space).__name__ != "Discrete"), (
            f"it is {space}, of shape {space.shape}; must have one axis."
        )
        start = kit_arrays.to_numpy(getattr(space, "start", 0))
        assert not start.any(), f"it is {space}, which starts at {start}; must start at 0."

    @must("TaskInfo.action is the kind of the action space.")
    def test_actions_are_as_described(self) -> None:
        """Libraries use it to choose models and refuse tasks."""
        described = self.info().action
        with self.environment() as env:
            space = env.single_action_space
        made = _KINDS.get(type(space).__name__)
        assert described == made, f"describe says {described!r}; the space {space} is {made!r}."

    @must("TaskInfo describes the observations and actions correctly.")
    def test_spaces_are_as_described(self) -> None:
        """Libraries use it to choose their networks. Fields that are None are not compared.

        Beside images, vectors may be left out.
        """
        info = self.info()
        with self.environment() as env:
            observations, space = env.single_observation_space, env.single_action_space
        parts = getattr(observations, "spaces", {"policy": observations})
        made = {name: ArrayInfo(part.shape, str(part.dtype)) for name, part in parts.items()}
        described = made if info.observations is None else dict(info.observations)
        known = {name: x for name, x in made.items() if name in described or x.is_image}
        if not any(x.is_image for x in described.values()):
            known = made
        assert described == known, f"describe has observations {described}; the space has {made}."
        sizes = tuple(int(n) for n in getattr(space, "nvec", (getattr(space, "n", 0),)))
        actions = space.shape if info.action == "continuous" else sizes
        assert info.actions in (None, actions), (
            f"describe has actions {info.actions}; the space has {actions}."
        )

    @may("Actions beyond the finite bounds of a Box have the same effect as the bounds.")
    def test_actions_beyond_the_bounds(self) -> None:
        """Libraries pass what their policy sampled; the suite clips it, and raises no error."""
        with self.player() as player:
            one, space = player.env.single_action_space, player.env.action_space
            if type(one).__name__ != "Box" or not one.is_bounded():
                skip(f"the action space is {one}")
            first, again, beyond = (self._played(player, space, times) for times in (1, 1, 3))
        if first_difference(first, again) is not None:
            skip(UNREPEATED)
        difference = first_difference(first, beyond)
        assert difference is None, f"at the bounds, and three times as far out: {difference}."

    @may("Played, with the options `SuiteSpec.playing`, a task has its spaces and lengths.")
    def test_playing(self) -> None:
        """A policy must fit both, and `evaluate` plays whole episodes. Skipped without options."""
        playing, own = self.spec().playing, resolve_env(self.info(), self.env)
        if not playing:
            skip("SuiteSpec.playing is empty")
        if (cannot := self.spec().cannot_play) and (why := cannot(self.info())):
            skip(why)
        names = ("single_observation_space", "single_action_space", "max_episode_length")
        found = []
        for options in (own, overlaid(own, playing)):
            with closing(self.make(options)) as env:
                found.append([getattr(env.unwrapped, name, None) for name in names])
        for name, one, other in zip(names, *found, strict=True):
            assert one == other, f"{name} is {other} with {dict(playing)}, {one} without."

    def _played(self, player: Player, space: Any, times: float) -> Any:
        """Return the steps for actions at the bounds, or `times` as far from the center."""
        center, steps = (space.high + space.low) / 2, [player.reset(seed=0)]
        for bound in (space.high, space.low, space.high):
            actions = center + times * (bound - center)
            given = kit_arrays.array(self.framework, actions, "float32", self.device)
            steps.append(player.step(given))
        return table(steps)

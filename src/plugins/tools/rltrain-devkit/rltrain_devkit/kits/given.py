"""What all kits share: plugins that are not installed, and a rule for what they declare."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import ClassVar
from unittest.mock import patch

from rltrain.plugins import given
from rltrain.specs import KINDS
from rltrain_devkit.kits.declaration import check_declaring_is_light
from rltrain_devkit.kits.rules import must


class GivenPlugins:
    """Lets a kit judge a plugin that is not installed."""

    plugins: ClassVar[Sequence[object]] = ()
    """Plugins that are not installed, as for `rltrain.train`: their modules."""

    _opened: ClassVar[contextlib.ExitStack]

    @classmethod
    def setup_class(cls) -> None:
        """Let the plugins be found. What a wrong one sets in this process is undone."""
        cls._opened = contextlib.ExitStack()
        cls._opened.enter_context(patch.dict(os.environ))
        cls._opened.enter_context(given(cls.plugins))

    @classmethod
    def teardown_class(cls) -> None:
        """Forget them."""
        cls._opened.close()

    @must("Declaring the plugin imports no tensor framework, no numpy and no simulator.")
    def test_declaring_is_light(self) -> None:
        """In a child process, without the other plugins."""
        for spec in KINDS.values():
            name = getattr(self, spec.kind.replace("gradient_sync", "grad_sync"), None)
            if name is not None:
                check_declaring_is_light(spec, name)

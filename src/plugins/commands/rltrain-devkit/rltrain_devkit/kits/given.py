"""The setting that all kits share: plugins that are not installed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import ClassVar
from unittest.mock import patch

from rltrain.plugins import given

__all__ = ["GivenPlugins"]


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

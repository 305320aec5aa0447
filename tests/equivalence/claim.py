"""A claim: a library and an algorithm learn on N ranks as on one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One combination that is claimed to learn on N ranks as on one rank with all environments."""

    library: str
    algorithm: str
    features: str
    """What is in play, for the table."""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the library's options, by dotted key."""
    scaled: tuple[str, ...] = ()
    """Those that the one rank has times the number of ranks: sizes of batches."""
    task: str = "rltrain/CartPoleContinuous-v1"
    env: Mapping[str, Any] = field(default_factory=lambda: {"max_episode_length": 12})
    """Options of the task. Short episodes: some are cut off, some end."""
    make_env: Callable[[int], Any] | None = None
    """Makes a number of environments; None: the suite does."""
    num_envs: int = 8
    """Environments a rank."""
    max_iterations: int | None = 2
    """None: as the options say."""
    mini_batches: int = 1
    """Into so many a rank's rollout is cut."""
    batch_size: int | None = None
    """Rows that a rank samples at a time, for algorithms with a replay buffer."""
    cut: Literal["rows", "environments"] = "rows"
    """Whether a mini-batch is of any rows, or of neighboring environments."""
    teacher: Claim | None = None
    """What is trained first, and given as `--checkpoint`."""
    checkpoint: str | None = None
    """Where to start; filled in from the teacher."""
    on_nonfinite: str = "stop"
    """As `--on-nonfinite`."""
    grad_sync: str | None = None
    """Of the ranks; None: the default."""
    on_gloo: bool = False
    """Whether it is tested on two real processes too."""

    def __str__(self) -> str:
        return f"{self.library} {self.algorithm}: {self.features}"

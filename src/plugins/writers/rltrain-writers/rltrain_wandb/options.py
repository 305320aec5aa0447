"""The writer's options. It imports nothing heavy, because it is read when a run is planned."""

from __future__ import annotations

from dataclasses import dataclass, field

from rltrain.options import naming
from rltrain_tracking import check_options

_NOT_IN_NAMES = "/\\#?%:"


@dataclass(frozen=True)
class WandbOptions:
    """Options of the Weights & Biases writer. Where one is not set, wandb's variable counts."""

    project: str | None = field(default=None, metadata=naming("text"))
    """The project; else WANDB_PROJECT, else "rltrain"."""
    entity: str | None = field(default=None, metadata=naming("text"))
    """The user or team; else WANDB_ENTITY, else wandb's default."""
    group: str | None = field(default=None, metadata=naming("text"))
    """Runs of the same group are shown together: seeds, say. Else WANDB_RUN_GROUP."""
    name: str | None = field(default=None, metadata=naming("text"))
    """The run's name; else WANDB_NAME, else that of the run folder."""
    tags: list[str] = field(default_factory=list, metadata=naming("text"))
    """Tags, as in `wandb.tags=[baseline,cpu]`; else WANDB_TAGS."""
    mode: str | None = field(default=None, metadata=naming("text"))
    """`online`, or `offline`: `wandb sync` uploads the run later. Else WANDB_MODE, else online."""
    checkpoints: str = field(default="none", metadata=naming("text"))
    """Which checkpoints become artifacts: `none`, `last`, `best` (by mean return) or `all`. The
    last and the best are uploaded when the run ends."""
    resume: bool = True
    """Whether a run that goes on from a checkpoint goes on in the same run of wandb."""
    finish_timeout: float = 30.0
    """Seconds that the end of the run waits for uploads."""

    def __post_init__(self) -> None:
        """Check what wandb would refuse later."""
        if self.mode not in (None, "online", "offline"):
            raise ValueError(f"mode={self.mode} is neither online nor offline.")
        if self.project is not None and not _is_name(self.project):
            raise ValueError(
                f"project={self.project} must have 1 to 128 characters, and none of "
                f"{' '.join(_NOT_IN_NAMES)}."
            )
        for tag in self.tags:
            if not 1 <= len(tag) <= 64:
                raise ValueError(f"tags: {tag!r} must have 1 to 64 characters.")
        check_options(self.checkpoints, self.finish_timeout)


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= 128 and not set(text) & set(_NOT_IN_NAMES)

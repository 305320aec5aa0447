"""The writer and its options. Light, because listing plugins imports it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rltrain.hookspecs import hookimpl
from rltrain.options import naming
from rltrain.specs import WriterSpec


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
    """Whether a run that continues from a checkpoint continues in the same run of wandb."""
    finish_timeout: float = 30.0
    """Seconds that the end of the run waits for uploads."""

    def __post_init__(self) -> None:
        """Check what wandb would refuse later."""
        if self.mode not in (None, "online", "offline"):
            raise ValueError(f"mode={self.mode} is neither online nor offline.")
        if self.project is not None and not re.fullmatch(r"[^/\\#?%:]{1,128}", self.project):
            raise ValueError(
                f"project={self.project} must have 1 to 128 characters, and none of / \\ # ? % :."
            )
        for tag in self.tags:
            if not 1 <= len(tag) <= 64:
                raise ValueError(f"tags: {tag!r} must have 1 to 64 characters.")
        from rltrain_tracking import check_options

        check_options(self.checkpoints, self.finish_timeout)


@hookimpl
def rltrain_provides() -> list[WriterSpec]:
    """Declare the writer."""
    return [
        WriterSpec(
            name="wandb",
            factory="rltrain_wandb.writer:WandbWriter",
            options="rltrain_wandb.plugin:WandbOptions",
            summary="Weights & Biases; the x axis is frames over all ranks",
        )
    ]

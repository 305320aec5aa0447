"""The writer's options. Light: this module is imported when a run is planned."""

from __future__ import annotations

from dataclasses import dataclass, field

from rltrain.options import naming

__all__ = ["WebhookOptions"]


@dataclass(frozen=True)
class WebhookOptions:
    """Options of the writer; `rltrain plugins webhook` lists them."""

    url: str = field(default="http://127.0.0.1:8080", metadata=naming("host"))
    """Where events are posted."""
    finish_timeout: float = 10.0
    """Seconds that the end of the run waits until everything is posted."""

    def __post_init__(self) -> None:
        """Check the options before a rank starts."""
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url={self.url} must begin with http:// or https://.")
        if not self.finish_timeout > 0:
            raise ValueError(f"finish_timeout={self.finish_timeout} must be greater than 0.")

"""What this plugin provides. Light: importing it imports only rltrain."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain import hookimpl
from rltrain.specs import Spec, WriterSpec

__all__ = ["rltrain_provides"]


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the writer."""
    return [
        WriterSpec(
            name="webhook",
            factory="rltrain_webhook.writer:WebhookWriter",
            options="rltrain_webhook.options:WebhookOptions",
            summary="posts a run's events as JSON to webhook.url",
        )
    ]

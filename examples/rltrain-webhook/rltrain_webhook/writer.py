"""The writer: a run's events, posted as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from rltrain.records import CheckpointSaved, Media, RunEnded, RunStarted
from rltrain_tracking import Refused, Row, TrackerWriter, outcome
from rltrain_webhook.options import WebhookOptions

__all__ = ["Webhook", "WebhookWriter"]

TIMEOUT = 10.0
"""Seconds for one request."""


class WebhookWriter(TrackerWriter):
    """Posts in a thread: however slow the other side is, training does not wait."""

    def __init__(self, options: WebhookOptions) -> None:
        tracker = Webhook(options.url)
        timeout = options.finish_timeout
        super().__init__("webhook", tracker, checkpoints="all", finish_timeout=timeout)


class Webhook:
    """Implements `rltrain_tracking.Tracker`. A call that raises is made again later."""

    def __init__(self, url: str) -> None:
        self._url = url

    def connect(self, started: RunStarted) -> None:
        """Post that the run has started."""
        self._post("started", dataclasses.asdict(started))

    def log(self, rows: Sequence[Row]) -> None:
        """Post metrics of one or several iterations.

        Raises:
            Refused: the other side does not take them.
        """
        # JSON has neither NaN nor infinity.
        finite = [
            {**row.metrics, "frames": row.frames, "time": row.time} for row in map(_finite, rows)
        ]
        self._post("metrics", {"rows": finite})

    def log_media(self, media: Media, frames: int) -> None:
        """Post where a file is."""
        self._post("media", {"path": media.path, "name": media.name, "frames": frames})

    def log_checkpoint(self, saved: CheckpointSaved, frames: int) -> None:
        """Post where a checkpoint is."""
        self._post("checkpoint", {"path": saved.path, "frames": frames})

    def finish(self, ended: RunEnded) -> None:
        """Post how the run has ended: "finished", say."""
        self._post("ended", {"outcome": outcome(ended), "error": ended.error})

    def _post(self, event: str, data: dict[str, Any]) -> None:
        body = json.dumps({"event": event, **data}, default=str).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url, body, headers)  # Its scheme is checked.
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT):
                pass
        except urllib.error.HTTPError as error:
            if 400 <= error.code < 500:
                raise Refused(f"{error.code} {error.reason}") from error
            raise


def _finite(row: Row) -> Row:
    kept = {name: value for name, value in row.metrics.items() if math.isfinite(value)}
    return dataclasses.replace(row, metrics=kept)

"""The observer: norms of gradients, before and after they are averaged over ranks."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TextIO

import torch

from rltrain import hookimpl
from rltrain.session import Session
from rltrain.types import GradientSync

__all__ = ["GradientNorms"]

_ROWS = 64
"""Rows that are written together: to read a number, the host waits for the device."""


class GradientNorms:
    """Wraps each gradient sync. `gradients.RANK.csv` has a row for each optimization step.

    Where the average is much shorter than the ranks' own gradients, these are mostly noise: more
    environments or ranks would help.
    """

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self._rows: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        self._syncs = 0

    @hookimpl(wrapper=True)
    def rltrain_gradient_sync(
        self, session: Session, parameters: Sequence[torch.Tensor], extras: int
    ) -> Generator[None, GradientSync, GradientSync]:
        """Return a sync that measures, and calls the run's own."""
        sync = yield
        number, self._syncs = self._syncs, self._syncs + 1
        count = len(parameters) - extras

        def measured(
            gradients: Sequence[torch.Tensor | None],
        ) -> Sequence[torch.Tensor | None] | None:
            own = _norm(gradients[:count])  # Before: a sync may reuse what it is given.
            averaged: Sequence[torch.Tensor | None] | None = sync(gradients)
            if averaged is not None:
                self._add(session, (number, own, _norm(averaged[:count])))
            return averaged

        return measured

    @hookimpl
    def rltrain_shutdown(self) -> None:
        """Write the rest."""
        if self._file is not None:
            self._write(self._file)
            self._file.close()

    def _add(self, session: Session, row: tuple[int, torch.Tensor, torch.Tensor]) -> None:
        if self._file is None:
            path = session.run_folder.path / f"gradients.{session.world.rank}.csv"
            self._file = path.open("a")
            self._file.write("optimizer,own,average\n")
        self._rows.append(row)
        if len(self._rows) >= _ROWS:
            self._write(self._file)

    def _write(self, file: TextIO) -> None:
        for number, own, average in self._rows:
            file.write(f"{number},{own.item():.6g},{average.item():.6g}\n")
        file.flush()
        self._rows.clear()


def _norm(gradients: Sequence[torch.Tensor | None]) -> torch.Tensor:
    norms = [gradient.detach().norm() for gradient in gradients if gradient is not None]
    return torch.stack(norms).norm() if norms else torch.zeros(())

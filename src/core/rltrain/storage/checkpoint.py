"""Checkpoints: one with its state, read once and passed on; those of a run, saved and removed."""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltrain.data import UnsafePickle, pack_state, parse_json, unpack_state, would_run_code
from rltrain.errors import UsageError
from rltrain.files.reading import changed_at, digest, opened, read_bytes
from rltrain.storage.run_folder import RunFolder

_MAGIC = b"rltrain state 2\n"
"""The first bytes of a state."""

_DIGEST, _LENGTH = hashlib.sha256().digest_size, 8
"""Bytes after those: a digest, and the length of what all ranks share."""

_LETTERS = 16
"""Of a checkpoint's digest, in the name of its state."""


class DamagedCheckpoint(UsageError):
    """A checkpoint is not what was written; `what` says which file."""

    # Only the message is needed to make one: pickle carries the rest, as for any exception.
    def __init__(self, message: str, *, what: str = "") -> None:
        super().__init__(message)
        self.what = what


class Checkpoint:
    """A library's file, and the state that was saved with it, if there is one.

    Nothing is read before it is asked for, and then once. What is not as it was written raises
    `DamagedCheckpoint`; what would run code raises `UsageError`, unless it is trusted.
    """

    def __init__(
        self, path: str | os.PathLike[str], trusted: bool = False, iteration: int | None = None
    ) -> None:
        self.path, self.trusted, self._iteration = Path(path), trusted, iteration

    def __fspath__(self) -> str:
        return str(self.path)

    __str__ = __fspath__

    @property
    def iteration(self) -> int | None:
        """After which it was saved, if its run or its state says so."""
        if self._iteration is None:
            return (self.state or {}).get("iteration")
        return self._iteration

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the library's file."""
        return digest(self.path, _memory())

    @functools.cached_property
    def state(self) -> Mapping[str, Any] | None:
        """What all ranks share, and in "ranks" what their parts are; see `part`."""
        return self._saved and self._saved[1]

    def part(self, rank: int) -> bytes:
        """Return a rank's own part, packed; `LookupError` if there is none."""
        return next(self._parts([rank]))

    def check(self) -> None:
        """Read all of it, one part after the other."""
        for _ in self._parts(range(len(self.state["ranks"])) if self.state is not None else ()):
            pass

    def _parts(self, ranks: Iterable[int]) -> Iterator[bytes]:
        if self._saved is None:
            return
        file, state, begins = self._saved
        entries = [state["ranks"][rank] for rank in ranks]
        try:
            with opened(file, _memory()) as stream:
                for rank, (length, expected) in zip(ranks, entries, strict=True):
                    stream.seek(begins[rank])
                    part = stream.read(length)
                    if hashlib.sha256(part).hexdigest() != expected:
                        raise ValueError(f"the part of rank {rank}")
                    yield part
        except (OSError, ValueError) as error:
            raise self._damaged(file.name, error) from error

    @functools.cached_property
    def _saved(self) -> tuple[Path, Mapping[str, Any], list[int]] | None:
        """The file of the state, what all ranks share, and where each rank's part begins."""
        states = list(states_of(self.path))
        if not states:
            return None
        try:
            found = self.digest[:_LETTERS]
        except OSError as error:
            raise self._damaged(self.path.name, error) from error
        file = next((path for path in states if path.suffixes[-2:-1] == [f".{found}"]), None)
        if file is None:
            raise self._damaged(self.path.name)
        try:
            packed, begin = self._shared(file)
            state = unpack_state(packed, "cpu", {}, self.trusted)
            if missing := {"iteration", "circumstances", "progress", "ranks"} - {*state}:
                raise ValueError(f"it lacks {', '.join(sorted(missing))}")
            lengths = [length for length, _ in state["ranks"]]
            begins = list(itertools.accumulate(lengths, initial=begin))
            if file.stat().st_size != begins[-1]:
                raise ValueError("it has another length")
        except UnsafePickle as error:
            raise UsageError(f"--checkpoint {self.path}: {would_run_code(error)}") from error
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise self._damaged(file.name, error) from error
        return file, state, begins

    def _shared(self, path: Path) -> tuple[bytes, int]:
        """Return what all ranks share, packed, and where their parts begin."""
        with opened(path, _memory()) as file:
            head = file.read(len(_MAGIC) + _DIGEST + _LENGTH)
            length = int.from_bytes(head[-_LENGTH:], "little")
            packed = file.read(min(length, os.fstat(file.fileno()).st_size))
            if head[:-_LENGTH] != _MAGIC + _digest(head[-_LENGTH:], packed):
                raise ValueError("another digest")
            return packed, file.tell()

    def _damaged(self, name: str, error: Exception | None = None) -> DamagedCheckpoint:
        why = getattr(error, "strerror", None) or error
        what = f"{name} is not what was written" + (f" ({why})" if error else "")
        return DamagedCheckpoint(
            f"--checkpoint {self.path}: is damaged: {what}. Name an earlier one, or give "
            "--checkpoint latest, which passes over damaged ones.",
            what=what,
        )


def name_of_state(name: str, checkpoint: Path) -> str:
    """Return the name of the state of a library's file that will have a name."""
    return f"{name}.{digest(checkpoint)[:_LETTERS]}.state"


def write_state(path: Path, shared: Mapping[str, Any], parts: Sequence[bytes]) -> None:
    """Write a state; each part has a digest of its own, so that a rank reads no other's."""
    ranks = [[len(part), hashlib.sha256(part).hexdigest()] for part in parts]
    packed = pack_state({**shared, "ranks": ranks}, {})
    length = len(packed).to_bytes(_LENGTH, "little")
    with path.open("wb") as file:
        file.writelines([_MAGIC, _digest(length, packed), length, packed, *parts])


def states_of(checkpoint: Path) -> Iterator[Path]:
    """Yield the states that were saved under a checkpoint's name."""
    name = re.compile(re.escape(checkpoint.name) + r"\.[0-9a-f]{16}\.state")
    for path in (checkpoint.parent / "ranks").glob(f"{glob.escape(checkpoint.name)}.*"):
        if name.fullmatch(path.name):
            yield path


def _digest(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def _memory() -> int:
    """Return this machine's memory, in bytes: more than that cannot be read."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


INDEX = "checkpoints.json"
"""In the run folder: the checkpoints in the order in which they were saved."""

_LARGEST_INDEX = 64 << 20
"""In bytes; some 500,000 checkpoints."""


def save_with_state(
    folder: RunFolder,
    name: str,
    save: Callable[[Path], Any],
    state: Mapping[str, Any],
    keep: int | None = None,
) -> Path:
    """Write a checkpoint and the ranks' state that belongs to it, and return its path. Rank 0 only.

    The state goes to `checkpoints/ranks/`, under a name that contains the checkpoint's digest, and
    has its own: damage to either is noticed. It is written first, so that a checkpoint never lacks
    its state; one of the same name keeps its own state until it is replaced.

    Its "ranks" are the parts of all ranks, packed; the index gets its "iteration" and
    "episode_return". Of all checkpoints of the run, `keep` are kept, and the best one.
    """

    def write(partial: Path) -> None:
        save(partial)
        written.append(name_of_state(name, partial))
        folder.write_atomically(
            f"checkpoints/ranks/{written[0]}", lambda path: write_state(path, shared, parts)
        )

    shared = dict(state)
    parts = shared.pop("ranks")
    written: list[str] = []
    path = folder.write_atomically(f"checkpoints/{name}", write)
    for outdated in states_of(path):
        if outdated.name not in written:
            outdated.unlink()
    before = saved_checkpoints(folder.path, lambda text: None)
    entries = [one for one in before if one["name"] != name] + [_entry(name, state)]
    kept = _kept(entries, keep)
    text = json.dumps(kept, indent=1) + "\n"
    folder.write_atomically(INDEX, lambda path: path.write_text(text))
    for entry in entries:
        if entry not in kept:
            _remove(folder.checkpoints / entry["name"])
    return path


def _kept(entries: list[dict[str, Any]], keep: int | None) -> list[dict[str, Any]]:
    """Return the newest of these checkpoints, and the one with the highest mean return."""
    if keep is None or len(entries) <= keep:
        return entries
    best = by_return(entries)[-1:]
    return [entry for entry in entries if entry in entries[-keep:] or entry in best]


def by_return(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the checkpoints whose return is known, the best one last."""
    rated = [entry for entry in entries if entry["episode_return"] is not None]
    return sorted(rated, key=lambda entry: float(entry["episode_return"]))


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint; its states last, so that it never lacks one."""
    states = list(states_of(checkpoint))
    checkpoint.unlink(missing_ok=True)
    for state in states:
        state.unlink()


def saved_checkpoints(run: Path, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return name, iteration and mean return of a run's checkpoints, in the order of saving."""
    try:
        return _index(run)
    except (OSError, ArithmeticError, LookupError, TypeError, ValueError):
        warn(f"{run / INDEX} is damaged: ordering the checkpoints next to it by time.")
    files = [path for path in (run / "checkpoints").glob("*") if path.is_file()]
    entries = []
    for path in sorted(files, key=changed_at):
        with contextlib.suppress(UsageError):
            entries.append(_entry(path.name, Checkpoint(path).state or {}))
    return entries


def _index(run: Path) -> list[dict[str, Any]]:
    try:
        entries = parse_json(read_bytes(run / INDEX, _LARGEST_INDEX, run))
    except FileNotFoundError:
        return []
    for name in (entry["name"] for entry in entries):
        if os.path.basename(name) != name or name in ("", ".", "..") or "\0" in name:
            raise ValueError("a name that leads elsewhere")
    return [_entry(entry["name"], entry) for entry in entries]


def _entry(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    mean = state.get("episode_return")
    # NaN is neither more nor less than another one.
    mean = float(mean) if mean is not None and math.isfinite(mean) else None
    return {"name": name, "iteration": state.get("iteration"), "episode_return": mean}

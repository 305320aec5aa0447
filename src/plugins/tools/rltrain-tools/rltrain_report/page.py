"""A page: one HTML file that holds everything it shows, and its pictures as PNG files too."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from rltrain.errors import UsageError
from rltrain.terminal import plain
from rltrain_report.pictures import Picture


@dataclass(frozen=True)
class Text:
    """Paragraphs."""

    paragraphs: Sequence[str]
    tone: str = "plain"
    """"plain", "good" or "bad"."""
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Quoted:
    """Text to copy, or another program's: shown as it is."""

    text: str
    kind: ClassVar[str] = "quoted"


@dataclass(frozen=True)
class Table:
    """Rows of text. Numbers are aligned to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    """The columns of numbers."""
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side, as many as the screen is wide."""

    pictures: Sequence[Picture]
    kind: ClassVar[str] = "pictures"


@dataclass(frozen=True)
class Folded:
    """What the reader may open."""

    summary: str
    blocks: Sequence[Any]
    kind: ClassVar[str] = "folded"


@dataclass(frozen=True)
class Section:
    """A heading and what is below it; `name` is the anchor."""

    title: str
    blocks: Sequence[Any]
    name: str


@dataclass(frozen=True)
class Page:
    """The whole page; `lead` says in a sentence or two what it is about."""

    title: str
    lead: str
    sections: Sequence[Section]
    foot: str

    def pictures(self) -> Iterator[Picture]:
        """Yield the pictures of all sections."""
        waiting: list[Any] = [block for section in self.sections for block in section.blocks]
        while waiting:
            block = waiting.pop(0)
            if isinstance(block, Pictures):
                yield from block.pictures
            elif isinstance(block, Folded):
                waiting[:0] = block.blocks


def write_page(page: Page, folder: Path, name: str) -> list[Path]:
    """Write a page and its pictures, and return the files, the page first.

    The folder is made if it is not there; files of the same names are replaced.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        contents = {name: _html(page).encode()}
        contents |= {f"{picture.name}.png": picture.png for picture in page.pictures()}
        for file, content in contents.items():
            (folder / file).write_bytes(content)
    except OSError as error:
        raise UsageError(
            f"--output {folder}: cannot be written ({error.strerror or error}). Name a folder that "
            "can."
        ) from error
    return [folder / file for file in contents]


def _html(page: Page) -> str:
    """Return the file's text. Everything but our own style is escaped."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    here = files("rltrain_report")
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
    template = environment.from_string((here / "page.html").read_text())
    style = Markup((here / "page.css").read_text())
    fields = {field.name: getattr(page, field.name) for field in dataclasses.fields(page)}
    return template.render(style=style, **fields)

"""What the site's build adds to the pages: tables from the code, and links that leave the docs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from rltrain.config import flag

ROOT = Path(__file__).parents[1]
COMMANDS = ("train", "tasks", "plugins", "doctor", "new")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add CONTRIBUTING.md, which lies beside the docs."""
    text = (ROOT / "CONTRIBUTING.md").read_text().replace("](docs/", "](")
    files.append(File.generated(config, "contributing.md", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in what the code says; links to files that the site does not have become their text."""
    if "{{ options }}" in markdown:
        markdown = markdown.replace("{{ options }}", options())
    if "{{ commands }}" in markdown:
        markdown = markdown.replace("{{ commands }}", commands())
    if "/" in page.file.src_uri:
        return markdown
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", markdown)


def options() -> str:
    """Return the table of a run's options."""
    config = griffe.load("rltrain.config", search_paths=[ROOT / "src" / "core"])["RunConfig"]
    rows = ["| flag | default | meaning |", "| --- | --- | --- |"]
    for name, field in config.attributes.items():
        if "property" in field.labels:
            continue
        given = f"{name}.KEY=VALUE" if name in ("agent", "env") else flag(name)
        meaning = " ".join(field.docstring.value.split())
        rows.append(f"| `{given}` | `{default(str(field.value))}` | {meaning} |")
    return "\n".join(rows)


def default(value: str) -> str:
    """Return a field's default as a user writes it."""
    from rltrain import config

    if value.startswith("field("):
        return "{}"
    return str(getattr(config, value, value)).strip("'\"")


def commands() -> str:
    """Return what each command prints for `--help`."""
    parts = []
    for name in COMMANDS:
        shown = subprocess.run(
            [sys.executable, "-m", "rltrain", name, "--help"],
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        parts.append(f"## `rltrain {name}`\n\n```text\n{shown}```\n")
    return "\n".join(parts)

"""What the site's build adds to the pages: tables from the code, and links that leave the docs."""

from __future__ import annotations

import dataclasses
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from rltrain.config.checks import flag
from rltrain.config.declare import option_of
from rltrain.options.run import RunOptions

ROOT = Path(__file__).parents[1]
TYPED = {"agent": "agent.KEY=VALUE", "env": "env.KEY=VALUE", "plugins": "NAME.KEY=VALUE"}
"""Options that have no flag: how they are typed."""

COMMANDS = (
    *("train", "play", "evaluate", "export", "report", "scale"),
    *("tasks", "plugins", "doctor", "new"),
)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add CONTRIBUTING.md, which lies next to the docs, and which test holds which promise."""
    text = (ROOT / "CONTRIBUTING.md").read_text().replace("](docs/", "](")
    files.append(File.generated(config, "contributing.md", content=text))
    promises = runpy.run_path(str(ROOT / "tests" / "promises.py"))["page"]()
    files.append(File.generated(config, "promises.md", content=promises))
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
    """Return the table of a run's options, by the groups of `--help`."""
    groups: dict[str, list[str]] = {}
    for field in dataclasses.fields(RunOptions):
        option = option_of(field)
        flags = [flag(field.name), *option.flags]
        if option.kind == "none":
            if field.name not in TYPED:
                continue  # No one types it.
            flags = [TYPED[field.name]]
        default = option.default_text or f"`{show(field.default)}`"
        shown = ", ".join(f"`{name}`" for name in flags)
        groups.setdefault(option.group, []).append(f"| {shown} | {default} | {option.help} |")
    parts = []
    for group, rows in groups.items():
        parts += [f"## {group.capitalize()}", ""]
        parts += ["| flag | default | meaning |", "| --- | --- | --- |", *rows, ""]
    return "\n".join(parts)


def show(default: object) -> str:
    """Return a default as a user writes it."""
    if default is dataclasses.MISSING:
        return "{}"
    if isinstance(default, tuple):
        return " ".join(map(str, default)) or "none"
    return {None: "none", True: "on", False: "off"}.get(default, str(default))  # type: ignore[call-overload, no-any-return]


def commands() -> str:
    """Return what each command prints for `--help-all`."""
    parts = []
    for name in COMMANDS:
        shown = subprocess.run(
            [sys.executable, "-m", "rltrain", name, "--help-all"],
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        parts.append(f"## `rltrain {name}`\n\n```text\n{shown}```\n")
    return "\n".join(parts)

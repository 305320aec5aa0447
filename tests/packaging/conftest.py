"""Tests of the core with the plugins of this repository; those in tests/unit need none."""

from __future__ import annotations

import pytest
from made_up_plugins import hidden_variables, plain_environment, site, stub

__all__ = ["hidden_variables", "plain_environment", "site", "stub"]


@pytest.fixture
def typed(site, capsys, monkeypatch):
    """Run a documented line with --dry-run appended; return its exit status and its output."""
    from typed_lines import typer

    return typer(site, capsys, monkeypatch)

"""Secrets among options, in command lines, in variables and in text: no file of a run has them.

The names are those of detect-secrets' keyword detector and of machine learning's services. The
tokens are those of gitleaks' rules that cannot be mistaken for anything else.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

HIDDEN = "(hidden)"

_WORDS = (
    r"(?:pass(?:word|wd|phrase)|secret|credential|cookie)s?|[-_]pwd|token|auth|authorization|dsn"
    r"|jwt|bearer|session[-_.]?id|signature|connection[-_.]?string|(?:access|account|api|auth|client"
    r"|clearml|comet(?:[-_.]ml)?|db|deploy|encryption|hf|license|master|mlflow|neptune|private"
    r"|secret|service|session|signing|ssh|ssl|tls|wandb)[-_.]?keys?"
)
"""How the names of secrets end, in any case."""
_NAME = re.compile(rf"(?:{_WORDS})$", re.IGNORECASE)

_TOKEN = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [^-]*-----|\Z)"
    r"|(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"  # AWS
    r"|gh[pousr]_\w{20,}|github_pat_\w{20,}|gl[a-z]{2,5}-[\w-]{20,}"  # GitHub, GitLab
    r"|(?:hf|api_org|npm|wandb_v\d)_[\w-]{20,}|local-[0-9a-f]{40}"  # Hugging Face, npm, wandb
    r"|(?:sk|xai|pypi|xox[a-z]|xapp)-[\w-]{16,}"  # OpenAI, Anthropic, xAI, PyPI, Slack
    r"|AIza[\w-]{35}|ya29\.[\w-]{16,}|GOCSPX-[\w-]{20,}"  # Google
    r"|eyJ[\w=+/-]{16,}(?:\.[\w=+/-]*)*"  # JSON in base64: JWT, Neptune
    r")|(?<=hooks\.slack\.com/services/)[\w/-]+",
    re.DOTALL,
)
"""Private keys, and tokens of known services."""

_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[\[{][^\]}]{0,1000}[\]}]|[^\s,;&#\"'}\])]+)"
_PATTERNS = (
    _TOKEN,
    re.compile(r"(?P<before>(?<!ssh)(?<!sftp)://)[^/@\s\"'<>()]+(?=@)"),  # Of a URL.
    re.compile(r"(?P<before>\b(?:authorization|cookie)[\"']?\s*[:=]\s*[\"']?)[^\n\"'}\]]+", re.I),
    re.compile(r"(?P<before>\bbearer\s+)[\w.~+/=-]{8,}", re.I),
    re.compile(rf"(?P<before>(?:{_WORDS})[\"']?\s*[:=]\s*){_VALUE}", re.I),
    re.compile(
        rf"(?P<before>(?<![\w-])--[\w.-]*(?:{_WORDS})[\"']?(?:\s+|,\s*))(?!-){_VALUE}", re.I
    ),
)

_ASSIGNED = re.compile(r"([\w.+-]+)=(.*)", re.DOTALL)
"""A word of a command line such as `agent.x=1` or `--flag=1`."""

_NOTHING = ("", "true", "false", "none", "null", HIDDEN)
_PASSWORDS = 100_000
"""Smaller numbers are counts and sizes, as of `agent.pad_token`."""
_SHORTEST = 6
"""Characters of a secret that is searched for in other text: a shorter one is in many words."""


def is_secret(name: str, value: object) -> bool:
    """Return whether an option, a flag or a variable with this name has a secret as its value."""
    if not isinstance(value, (str, int, float)) or str(value).strip().lower() in _NOTHING:
        return False
    if not isinstance(value, str) and abs(value) < _PASSWORDS:
        return False
    return bool(_NAME.search(name) or _TOKEN.fullmatch(str(value)))


def hide(value: Any, name: str = "") -> Any:
    """Return a value with all secrets hidden, nested ones too.

    `name` is that of the value: of an option, with dots or without, or of an environment variable.
    """
    return _hide(value, name, set())


def hide_words(words: Iterable[str]) -> list[str]:
    """Return the words of a command line, as in `wandb.api_key=...`, with secrets hidden."""
    hidden: list[str] = _hide(list(words), "", set())
    return hidden


def hide_in_text(text: str, options: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return a message with all secrets hidden.

    Those of the command line, of variables and of the run's options are found wherever it repeats
    them.
    """
    found: set[str] = set()
    for given in (options, sys.argv, dict(os.environ)):
        _hide(given, "", found)
    for secret in sorted(found, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, HIDDEN)
    return _hide_patterns(text, found)


def without_secrets(options: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Return options for a file that starts another run: it needs its secrets from elsewhere."""
    return {
        key: without_secrets(value, f"{name}.{key}")
        if isinstance(value, Mapping)
        else hide(value, f"{name}.{key}")
        for key, value in options.items()
        if not is_secret(f"{name}.{key}", value)
    }


def _hide(value: Any, name: str, found: set[str]) -> Any:
    """Hide secrets, and add them to those that were `found`."""
    if isinstance(value, Mapping):
        return {key: _hide(below, f"{name}.{key}", found) for key, below in value.items()}
    if isinstance(value, (list, tuple)):
        hidden, flag = [], ""
        for item in value:
            is_flag = isinstance(item, str) and item.startswith("-")
            hidden.append(_hide(item, name if is_flag else flag or name, found))
            flag = item if is_flag and "=" not in item else ""
        return tuple(hidden) if isinstance(value, tuple) else hidden
    if is_secret(name, value):
        found.add(str(value))
        return HIDDEN
    if not isinstance(value, str):
        return value
    if (word := _ASSIGNED.fullmatch(value)) and is_secret(*word.groups()):
        found.add(word[2])
        return f"{word[1]}={HIDDEN}"
    return _hide_patterns(value, found)


def _hide_patterns(text: str, found: set[str]) -> str:
    def hidden(match: re.Match[str]) -> str:
        before = match.groupdict().get("before") or ""
        secret = match[0].removeprefix(before).strip("\"'")
        if secret.lower() in _NOTHING or secret.startswith(HIDDEN[:-1]):
            return match[0]
        found.add(secret)
        return before + HIDDEN

    for pattern in _PATTERNS:
        text = pattern.sub(hidden, text)
    return text

"""Secrets among options, in command lines, in variables and in text: no file of a run has them.

`secret_names` says what is a secret. Here, secrets are found in whatever rltrain writes: in values,
nested or typed as text; in words of a command line; in URLs and headers.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from rltrain.files.secrets.names import PRIVATE, TOKEN, is_secret

HIDDEN = "(hidden)"

_ASSIGNED = re.compile(r"([-+]*[\w@][\w.@-]*)=(.*)", re.DOTALL)
"""A word of a command line such as `agent.x=1`, `--flag=1` or `NAME=1`."""

_WORD = r"""[^\s,;&"'}\])]+"""
_QUOTED = r"""\"(?:[^\"\\]|\\.)*\"|'[^']*'"""
_VALUE = rf"(?P<secret>{_QUOTED}|{_WORD})"
_WORDS = rf"(?![\[{{]|\S*:(?:\s|$)){_WORD}(?:[ \t]+(?!\S*:\s){_WORD})*"
_EQUALS = re.compile(rf"(?P<before>(?<![\w@.-])(?P<name>[\w@.-]{{0,100}}\w)[\"']?\s*=\s*){_VALUE}")
_FLAG = re.compile(
    rf"(?P<before>(?<![\w-])--?(?P<name>[A-Za-z][\w.-]*)[\"']?(?:\s+|,\s*))(?!-){_VALUE}"
)
_COLON = re.compile(
    rf"(?P<before>(?<![\w@.-])(?P<name>[\w@.-]{{0,100}}\w)(?:[\"']?\s*:\s+|\"\s*:))"
    rf"(?P<secret>{_QUOTED}|[\[{{][^][{{}}]*[]}}]|{_WORDS})"
)
_PAIRS = (_EQUALS, _FLAG, _COLON)

_ANYWHERE = (
    PRIVATE,
    TOKEN,
    # Of a URL: the user, if that alone is given or looks like a token; the password; in the query.
    re.compile(r"(?P<before>://)(?=[^/@:\s]{0,300}\d)[^/@:\s\"']{16,}(?=:\S{0,300}@)"),
    re.compile(r"(?P<before>://[^/@:\s\"']*:)(?!\d{1,5}(?:[/?#]|$))[^\s\"'<>]{1,300}(?=@)"),
    re.compile(r"(?P<before>(?<!ssh)(?<!sftp)://)[^/@:\s\"'<>()]+(?=@)"),
    re.compile(r"(?P<before>(?i:[?&#;](?:key|sig|signature|code|x-amz-[\w-]+)=))[^&\s#\"']+"),
    # Of a header.
    re.compile(
        r"(?P<before>(?i:\b(?:proxy-)?(?:authorization|(?:set-)?cookie)[\"']?\s*[:=]\s*[\"']?))"
        r"[^\n\"'}\]]+"
    ),
    re.compile(
        r"(?P<before>(?<!\S)(?:-u|--user)[ =][^\s:]{1,100}:)[^\s\"']+"
    ),  # As curl takes them.
    re.compile(r"(?P<before>(?i:\b(?:bearer|basic|token)\s+))(?=\S{0,300}\d)[\w.~+/=-]{8,}"),
)

_SHORTEST = 6
"""Characters of a secret that is looked for in other text: a shorter one is in many words."""


def hide(value: Any, name: str = "") -> Any:
    """Return a value with all secrets hidden, those below it too.

    Args:
        value: mappings, lists, tuples and plain values.
        name: of the value: of an option, with dots or without, or of an environment variable.
    """
    return _Hider().value(value, name)


def hide_words(words: Iterable[str]) -> list[str]:
    """Return the words of a command line, as in `wandb.api_key=...`, with secrets hidden."""
    return _Hider().items(words, "")


def hide_in_text(text: str, options: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return a message with all secrets hidden.

    Those of the command line, of variables and of the options are found wherever it repeats them.

    Args:
        text: the message.
        options: of the run, if they are known.
    """
    hider = _Hider()
    hider.value(options, "")
    hider.items(sys.argv, "")
    hider.value(dict(os.environ), "")
    for secret in sorted(hider.found, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, HIDDEN)
    return hider.patterns(text)


def without_secrets(options: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Return options for a file that starts another run: it needs its secrets from elsewhere."""
    return {
        key: without_secrets(value, _below(name, key))
        if isinstance(value, Mapping)
        else hide(value, _below(name, key))
        for key, value in options.items()
        if not is_secret(_below(name, key), value)
    }


def _below(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)


class _Hider:
    """Hides secrets, and remembers them in `found`."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def value(self, value: Any, name: str) -> Any:
        if isinstance(value, Mapping):
            return {key: self.value(below, _below(name, key)) for key, below in value.items()}
        if isinstance(value, (list, tuple)):
            items = self.items(value, name)
            return tuple(items) if isinstance(value, tuple) else items
        if is_secret(name, value):
            return self._hidden(value)
        return self._typed(value) if isinstance(value, str) else value

    def items(self, items: Iterable[Any], name: str) -> list[Any]:
        """Hide secrets in a list. A flag in it, such as `--token`, names what follows it."""
        hidden: list[Any] = []
        flag = ""
        for item in items:
            text = item if isinstance(item, str) else ""
            follows = bool(flag) and not text.startswith("-") and not _ASSIGNED.fullmatch(text)
            secret = follows and is_secret(flag, item)
            hidden.append(self._hidden(item) if secret else self.value(item, name))
            if text.startswith("-"):
                flag = "" if "=" in text else text
        return hidden

    def patterns(self, text: str, *pairs: re.Pattern[str]) -> str:
        """Hide what looks like a secret anywhere in a text, and those values that have names."""
        for pattern in (*_ANYWHERE, *pairs):
            text = pattern.sub(self._replaced, text)
        return text

    def _typed(self, text: str) -> str:
        """Hide secrets in what may be a word of a command line, YAML, JSON or a URL.

        By patterns: parsing what is YAML only perhaps would take as long as somebody likes.
        """
        assigned = _ASSIGNED.fullmatch(text)
        if assigned and is_secret(assigned[1], assigned[2]):
            return f"{assigned[1]}={self._hidden(assigned[2])}"
        name, text = (f"{assigned[1]}=", assigned[2]) if assigned else ("", text)
        return name + self.patterns(text, *_PAIRS)

    def _replaced(self, found: re.Match[str]) -> str:
        parts = found.groupdict()
        before = parts.get("before") or ""
        secret = found[0][len(before) :].strip("\"'")
        if secret.startswith(HIDDEN[:-1]):  # By a pattern before this one.
            return found[0]
        if "name" in parts and not is_secret(parts["name"], secret):
            has_parts = secret != parts["secret"] or secret[:1] in ("[", "{")
            inner = self.patterns(secret, *_PAIRS) if has_parts else secret
            return before + parts["secret"].replace(secret, inner)
        return before + self._hidden(secret)

    def _hidden(self, secret: Any) -> str:
        self.found.add(str(secret))
        return HIDDEN

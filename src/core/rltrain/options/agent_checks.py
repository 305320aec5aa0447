"""What a library's options, of its file or from overrides, must be before a rank starts."""

from __future__ import annotations

import difflib
import importlib.metadata
from collections.abc import Iterator, Mapping, Set
from typing import Any

from rltrain.errors import UsageError, suggest
from rltrain.files.dotted import flatten, get_dotted
from rltrain.specs import Choices, Ignored, Keys, LibrarySpec

_NUMBERS = ("auto", "none")
"""Text in place of a number."""

_NEARLY = 0.85
"""How alike a key and a known one are if one is the other misspelled."""


def check_sections(
    options: Mapping[str, Any], library: LibrarySpec, defaults: Mapping[str, Any]
) -> None:
    """Check that every section that contains library options is a mapping, or is absent."""
    own = {key for key, _ in flatten(defaults)}
    for key in sorted({*library.schema.also, *library.schema.required, *own}):
        parts = key.split(".")
        for end in range(1, len(parts)):
            section = ".".join(parts[:end])
            value = get_dotted(options, section, None)
            if isinstance(get_dotted(defaults, section, None), list):
                break  # What it contains may be replaced by anything.
            if value is not None and not isinstance(value, Mapping):
                raise UsageError(
                    f"agent.{section}={value}: must be a mapping, because it contains agent.{key}."
                    f" Set agent.{key}=... instead."
                )


def check_kinds(options: Mapping[str, Any], defaults: Mapping[str, Any], added: Set[str]) -> None:
    """Check that values are of the kind of the library's own, but for those that were added by +.

    None means "off" for an option of any kind, and "auto" a number that the library chooses. What a
    list contains may be replaced by anything.
    """
    for key, usual in flatten(defaults):
        value = get_dotted(options, key, None)
        in_list = any(part.isdigit() for part in key.split("."))
        if key in added or in_list or value is None or isinstance(value, Mapping):
            continue
        is_text, is_list = isinstance(value, str), isinstance(value, (list, tuple))
        if isinstance(usual, bool) and (is_text or is_list):
            wanted = "true or false"
        elif isinstance(usual, (int, float)) and is_text and value.lower() not in _NUMBERS:
            wanted = f"a number, such as {usual}"
        elif isinstance(usual, (list, tuple)) and not is_list:
            wanted = f"a list, such as {list(usual)}"
        else:
            continue
        wanted += ", not text" if is_text else ""  # Its quotes are shown, too.
        search = " To search: rltrain sweep." if is_text and value.endswith(")") else ""
        raise UsageError(
            f"agent.{key}={value!r}: must be {wanted}.{search} To give it anyway: +agent.{key}="
        )


def check_keys(
    options: Mapping[str, Any], library: LibrarySpec, sections: Mapping[str, Keys], added: Set[str]
) -> list[str]:
    """Check that the library has the options in its sections, and that what it needs is there.

    Returns a line on those that it lacks and that may be there: of other programs, or added by +.
    """
    unknown: list[str] = []
    for section, keys in sections.items():
        within = get_dotted(options, section, None) if section else options
        if not isinstance(within, Mapping):
            continue
        prefix = f"{section}." if section else ""
        given = [str(key) for key in within]
        for key in (key for key in given if key not in keys.known):
            near = difflib.get_close_matches(key, {*keys.known} - {*given}, 1, _NEARLY)
            if _is_added(f"{prefix}{key}", added) or (keys.open and not near):
                unknown.append(f"agent.{prefix}{key}")
            else:
                raise UsageError(
                    f"agent.{prefix}{key}: {_with_version(library.name)} has no such option."
                    f"{suggest(key, keys.known)} To give it anyway: +agent.{prefix}{key}="
                )
        for key in keys.required:
            if key not in within:
                raise UsageError(
                    f"agent.{prefix}{key}: is missing, and {_with_version(library.name)} needs it. "
                    f"Add it to the file, or give +agent.{prefix}{key}=..."
                )
    if not unknown:
        return []
    return [f"{', '.join(unknown)}: {_with_version(library.name)} reads no such option."]


def without_effect(
    options: Mapping[str, Any], ignored: Mapping[str, Ignored], typed: Set[str]
) -> Iterator[str]:
    """Yield a line on the options that have no effect here, for each way to say the same."""
    found: dict[str, list[str]] = {}
    for key, each in ignored.items():
        is_typed = any(f"{name}.".startswith(f"{key}.") for name in typed)
        if get_dotted(options, key, None) not in (None, *each.off) and is_typed >= each.if_typed:
            found.setdefault(each.instead, []).append(f"agent.{key}")
    for instead, keys in found.items():
        yield f"{', '.join(keys)}: not read here. {instead}"


def check_choices(
    options: Mapping[str, Any],
    library: LibrarySpec,
    choices: Mapping[str, Choices],
    added: Set[str],
) -> None:
    """Check that the library has the words in its options, but for those that were added by +."""
    for key, taken in choices.items():
        value = get_dotted(options, key, None)
        if not taken.allowed or not isinstance(value, str) or _is_added(key, added):
            continue
        given = value.lower() if taken.ignore_case else value
        if given not in taken.allowed:
            raise UsageError(
                f"agent.{key}={value}: {_with_version(library.name)} has no such {taken.noun}."
                f"{suggest(value, taken.allowed)} It has {', '.join(sorted(taken.allowed))}. "
                f"To give it anyway: +agent.{key}="
            )


def _is_added(key: str, added: Set[str]) -> bool:
    """Return whether an option was added by +, or a section that contains it."""
    parts = key.split(".")
    return any(".".join(parts[:end]) in added for end in range(1, len(parts) + 1))


def _with_version(library: str) -> str:
    """Return a library's name, with its version if the package of that name says one."""
    for distribution in importlib.metadata.packages_distributions().get(library, ()):
        return f"{library} {importlib.metadata.version(distribution)}"
    return library

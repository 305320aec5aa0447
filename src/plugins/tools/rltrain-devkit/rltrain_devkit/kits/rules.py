"""Decorators for the rules of a conformance kit: a rule's text is part of the failure message."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


def must(rule: str) -> Callable[[Test], Test]:
    """Mark a test that every plugin of the kind has to pass.

    Args:
        rule: the rule as a sentence, such as "Every rank ends with the same parameters."
    """
    return _stating(f"MUST: {rule}")


def may(rule: str) -> Callable[[Test], Test]:
    """Mark a test of an optional capability; the kit skips it if a flag says so."""
    return _stating(f"MAY, and declares that it does: {rule}")


def skip(reason: str) -> NoReturn:
    """Skip the running test, because what it tests does not exist."""
    import pytest

    pytest.skip(reason)


def _stating(statement: str) -> Callable[[Test], Test]:
    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def checked(*arguments: Any, **options: Any) -> None:
            try:
                test(*arguments, **options)
            except Exception as error:
                raise AssertionError(f"{statement}\n{type(error).__name__}: {error}") from error

        checked.__doc__ = statement
        return checked  # type: ignore[return-value]

    return decorate

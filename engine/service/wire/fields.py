"""Checks the fields of an object from a stranger as they are taken, and refuses those left over."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from engine.declared import check_flag, check_real, check_whole
from engine.errors import SafelightError, quoted
from engine.trace.format import MOST_TOKENS, PayloadError


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turns a payload's error into a sentence that names the payload."""
    try:
        yield
    except PayloadError as error:
        raise SafelightError(f"{what} cannot be read: {error}") from None


def fields(raw: Any, what: str, known: Collection[str] | None, needed: Collection[str] = ()) -> Mapping[str, Any]:
    """Returns an object that has only known fields; with None all fields are allowed.

    Raises:
        SafelightError: it is none, or has another field, or lacks one.
    """
    if not isinstance(raw, Mapping):
        raise SafelightError(f"{what} must be an object, not {quoted(raw)}")
    for name in raw:
        if known is not None and name not in known:
            raise SafelightError(f"{what} has a field {quoted(name)} that is not known; leave it out")
    for name in needed:
        if name not in raw:
            raise SafelightError(f"{what} lacks the field {name!r}")
    return raw


def whole(raw: Mapping[str, Any], name: str, low: int, high: int, default: int | None = None) -> int:
    """Returns a whole number within bounds."""
    value: Any = raw.get(name, default)
    check_whole(name, value, low, high)
    return int(value)


def real(raw: Mapping[str, Any], name: str, low: float = 0.0) -> float:
    """Returns a finite number from ``low``."""
    value: Any = raw.get(name)
    check_real(name, value, low)
    return float(value)


def flag(raw: Mapping[str, Any], name: str, default: bool = False) -> bool:
    value = raw.get(name, default)
    check_flag(name, value)
    return value is True


def string(raw: Mapping[str, Any], name: str, most: int, default: str | None = "") -> str:
    """Returns a text of at most so many characters."""
    value = raw.get(name, default)
    if not isinstance(value, str) or len(value) > most:
        raise SafelightError(f"{name} must be a text of at most {most:,} characters, not {quoted(value)}")
    return value


def items(raw: Mapping[str, Any], name: str, most: int) -> list[Any]:
    """Returns a list of at most so many values; empty if there is none."""
    value: Any = raw.get(name, [])
    if not isinstance(value, list) or len(value) > most:
        raise SafelightError(f"{name} must be a list of at most {most:,}, not {quoted(value)}")
    return list(value)


def tokens(raw: Mapping[str, Any], name: str, most: int) -> list[int]:
    """Returns a list of at most so many token ids."""
    value = items(raw, name, most)
    if not all(type(token) is int and 0 <= token < MOST_TOKENS for token in value):
        raise SafelightError(f"{name} must be token ids")
    return value

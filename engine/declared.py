"""Bounds that a dataclass declares on its fields: ``steps: Annotated[int, whole(1, 100)]``.

A declaration is a function of a field's name and value, which raises a ``SafelightError`` that names the field.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from engine.errors import SafelightError, quoted

MOST_REAL = 1e30  # also fits a float on a graphics card

Check = Callable[[str, Any], None]


def check_fields(made: Any, prefix: str = "") -> None:
    """Checks the declared fields of a dataclass; None passes where the field's type has it.

    Args:
        prefix: put before a field's name in messages.

    Raises:
        SafelightError: a value is out of its bounds, or of another type.
    """
    for name, check, is_optional in _declared(made.__class__):
        value = getattr(made, name)
        if value is not None or not is_optional:
            check(prefix + name, value)


@functools.cache
def _declared(kind: Any) -> list[tuple[str, Check, bool]]:
    hints = get_type_hints(kind, include_extras=True)
    found = [(field.name, get_args(hints[field.name])) for field in dataclasses.fields(kind)]
    return [
        (name, args[1], type(None) in get_args(args[0])) for name, args in found if get_origin(hints[name]) is Annotated
    ]


def whole(low: int, high: int) -> Check:
    """Declares a whole number from ``low`` to ``high``."""
    return lambda name, value: check_whole(name, value, low, high)


def real(low: float, high: float = MOST_REAL, *, exclusive: bool = False) -> Check:
    """Declares a finite number from ``low``, or above it if that is ``exclusive``, to ``high``."""

    def check(name: str, value: Any) -> None:
        check_real(name, value, low, exclusive=exclusive)
        if value > high:
            raise SafelightError(f"{name} must be at most {high:g}, not {value}")

    return check


def one_of(options: Collection[object]) -> Check:
    """Declares one of some values."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, bool) or value not in options:
            raise SafelightError(f"{name} must be one of {', '.join(map(str, options))}, not {quoted(value)}")

    return check


def ids(most: int, high: int) -> Check:
    """Declares a tuple of at most ``most`` token ids up to ``high``."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, tuple) or len(value) > most:
            raise SafelightError(f"{name} must be a tuple of at most {most} token ids, not {quoted(value)}")
        for token in value:
            check_whole(f"each of {name}", token, 0, high)

    return check


def check_whole(name: str, value: Any, low: int, high: int) -> None:
    """Checks a whole number.

    Raises:
        SafelightError: it is no whole number from ``low`` to ``high``.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SafelightError(f"{name} must be a whole number between {low} and {high}, not {quoted(value)}")


def check_real(name: str, value: Any, low: float, *, exclusive: bool = False) -> None:
    """Checks a real number.

    Raises:
        SafelightError: it is no finite number of at least ``low``, or, if that is ``exclusive``, above it.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST_REAL:
        raise SafelightError(f"{name} must be a finite number, not {quoted(value)}")
    if value < low or (exclusive and value == low):
        raise SafelightError(f"{name} must be {'above' if exclusive else 'at least'} {low:g}, not {quoted(value)}")


def check_flag(name: str, value: Any) -> None:
    """Refuses what is neither true nor false."""
    if not isinstance(value, bool):
        raise SafelightError(f"{name} must be true or false, not {quoted(value)}")


Flag = Annotated[bool, check_flag]
Share = Annotated[float, real(0.0, 1.0)]

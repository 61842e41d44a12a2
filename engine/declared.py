"""The bounds that a dataclass declares on its fields, and its form as JSON: ``steps: Annotated[int, whole(1, 100)]``.

A declaration is a function of a field's name and value, which raises a ``SafelightError`` that names the field.
``read`` makes a value of parsed JSON by its type's annotations, and ``plain`` the JSON of it: a dataclass is an object
of its fields, without those that are ``LOCAL``. What has another form has a ``Form`` among its annotations.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import types
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from engine.errors import SafelightError, quoted
from engine.files import storable

MAX_REAL = 1e30  # also fits a float on a graphics card
LOCAL = {"is_local": True}
"""The metadata of a field that is no part of the JSON."""

Check = Callable[[str, Any], None]
T = TypeVar("T")
_TYPE_NAMES = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}


class Form(NamedTuple):
    """The form of an annotated value as JSON, where its type is not enough."""

    read: Callable[[Any], Any]  # raises SafelightError
    write: Callable[[Any], Any]


class _Declared(NamedTuple):
    """An annotation, taken apart."""

    kind: Any
    checks: list[Check]
    form: Form | None
    is_optional: bool


@functools.cache
def _declared(hint: Any) -> _Declared:
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    is_optional = get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind)
    others = [one for one in get_args(kind) if one is not type(None)]
    if is_optional and len(others) == 1:
        kind = others[0]
    form = next((note for note in notes if isinstance(note, Form)), None)
    return _Declared(kind, [note for note in notes if callable(note)], form, is_optional)


@functools.cache
def _fields(kind: Any) -> dict[str, tuple[Any, dataclasses.Field[Any]]]:
    """Returns the fields of a dataclass, each with its annotation."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: (hints[field.name], field) for field in dataclasses.fields(kind)}


def check_fields(instance: Any, prefix: str = "") -> None:
    """Checks the declared fields of a dataclass; None passes where the field's type has it.

    Args:
        prefix: put before a field's name in messages.

    Raises:
        SafelightError: a value is out of its bounds, or of another type.
    """
    for name, checks, is_optional in _checked(instance.__class__):
        value = getattr(instance, name)
        for check in checks if value is not None or not is_optional else ():
            check(prefix + name, value)


@functools.cache
def _checked(kind: Any) -> list[tuple[str, list[Check], bool]]:
    declarations = [(name, _declared(hint)) for name, (hint, _) in _fields(kind).items()]
    return [(name, one.checks, one.is_optional) for name, one in declarations if one.checks]


def read(kind: type[T], raw: Any, name: str, *, is_strict: bool = False, is_inner: bool = False) -> T:
    """Returns a value of a declared type from parsed JSON.

    Args:
        kind: a dataclass, or what may be the type of a field of one. Its checks are those of its annotations.
        raw: the JSON. Fields that a dataclass does not have are passed over.
        name: what it is, for messages.
        is_strict: fields that a dataclass does not have are refused.
        is_inner: it is a part of other JSON, so that messages say of which.

    Raises:
        SafelightError: it is not of that type, or out of its bounds.
    """
    declared = _declared(cast("Any", kind))
    if raw is None and declared.is_optional:
        return raw  # type: ignore[return-value]
    value = _read(declared.kind, raw, name, is_strict, is_inner) if declared.form is None else declared.form.read(raw)
    for check in declared.checks:
        check(name, value)
    return value  # type: ignore[no-any-return]


def _read(kind: Any, raw: Any, name: str, is_strict: bool, is_inner: bool) -> Any:
    inside = functools.partial(read, is_strict=is_strict, is_inner=True)
    origin, args = get_origin(kind) or kind, get_args(kind)
    if kind is Any or (dataclasses.is_dataclass(kind) and isinstance(raw, kind)):  # type: ignore[arg-type]
        return raw
    if origin is Literal:
        one_of(args)(name, raw)
        return raw
    if origin is tuple:
        kinds = args[:1] * len(raw) if isinstance(raw, list | tuple) and args[-1] is Ellipsis else args
        if not isinstance(raw, list | tuple) or len(raw) != len(kinds):
            raise SafelightError(f"{name} must be a list, not {quoted(raw)}")
        if args == (int, ...) and all(type(one) is int for one in raw):  # there may be many
            return tuple(raw)
        return tuple(inside(one, inner, f"each of {name}") for one, inner in zip(kinds, raw, strict=True))
    if origin in _TYPE_NAMES:
        fits = isinstance(raw, int | float) if kind is float else isinstance(raw, kind)
        if not fits or (isinstance(raw, bool) and kind is not bool):
            raise SafelightError(f"{name} must be {_TYPE_NAMES[kind]}, not {quoted(raw)}")
        return storable(raw) if kind is str else raw
    if not isinstance(raw, Mapping):
        raise SafelightError(f"{name} must be an object, not {quoted(raw)}")
    if not dataclasses.is_dataclass(kind):
        return {inside(args[0], key, name): inside(args[1], inner, name) for key, inner in raw.items()}
    return cast("Any", kind)(**read_fields(kind, raw, name, is_strict=is_strict, is_inner=is_inner))


def read_fields(
    kind: Any, raw: Mapping[str, Any], name: str, *, is_strict: bool = False, is_inner: bool = False
) -> dict[str, Any]:
    """Returns the fields of a dataclass from parsed JSON, as ``read`` reads them."""
    fields = {key: one for key, one in _fields(kind).items() if not one[1].metadata.get("is_local")}
    if is_strict and (unknown := [given for given in raw if given not in fields]):
        raise SafelightError(f"{name} has a field {quoted(unknown[0])} that is not known; leave it out")
    for key, (_, field) in fields.items():
        if key not in raw and field.default is field.default_factory is dataclasses.MISSING:
            raise SafelightError(f"{name} lacks the field {key!r}")
    of = f" of {name}" if is_inner else ""
    return {
        key: read(hint, raw[key], key + of, is_strict=is_strict, is_inner=True)
        for key, (hint, _) in fields.items()
        if key in raw
    }


def plain(value: Any, form: Form | None = None) -> Any:
    """Returns a value as JSON, which ``read`` reads; in the form of its field, if that has one."""
    if value is None or isinstance(value, str | int | float):
        return value
    if form is not None:
        return form.write(value)
    if dataclasses.is_dataclass(value):
        fields = _fields(value.__class__).items()
        written = [(name, hint) for name, (hint, field) in fields if not field.metadata.get("is_local")]
        return {name: plain(getattr(value, name), _declared(hint).form) for name, hint in written}
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value]


def whole(low: int, high: int) -> Check:
    """Declares a whole number from ``low`` to ``high``."""
    return lambda name, value: check_whole(name, value, low, high)


def real(low: float, high: float = MAX_REAL, *, exclusive: bool = False) -> Check:
    """Declares a finite number from ``low``, or above it if that is ``exclusive``, to ``high``."""

    def check(name: str, value: Any) -> None:
        check_real(name, value, low, exclusive=exclusive)
        if value > high:
            raise SafelightError(f"{name} must be at most {high:g}, not {value}")

    return check


def text(most: int, pattern: str = "") -> Check:
    """Declares a text of at most ``most`` characters, which a regular expression matches, if there is one."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str) or len(value) > most or (pattern and not re.fullmatch(pattern, value)):
            raise SafelightError(f"{name} must be a text of at most {most:,} characters, not {quoted(value)}")

    return check


def many(most: int, fewest: int = 0) -> Check:
    """Declares a tuple of ``fewest`` to ``most`` values."""

    def check(name: str, value: Any) -> None:
        if not fewest <= len(value) <= most:
            raise SafelightError(f"{name} must have {fewest} to {most:,} entries, not {len(value)}")

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
        if not all(type(token) is int and 0 <= token <= high for token in value):
            raise SafelightError(f"each of {name} must be a whole number between 0 and {high}")

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
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_REAL:
        raise SafelightError(f"{name} must be a finite number, not {quoted(value)}")
    if value < low or (exclusive and value == low):
        raise SafelightError(f"{name} must be {'above' if exclusive else 'at least'} {low:g}, not {quoted(value)}")


def check_flag(name: str, value: Any) -> None:
    """Refuses what is neither true nor false."""
    if not isinstance(value, bool):
        raise SafelightError(f"{name} must be true or false, not {quoted(value)}")


Flag = Annotated[bool, check_flag]
Share = Annotated[float, real(0.0, 1.0)]

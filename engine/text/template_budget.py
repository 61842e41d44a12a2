"""The budget of rendering a template: steps, and the size of every value.

A step is about a microsecond: an operation, an item of a list, or 16 characters read or written. Since all new values
are counted, steps limit the memory, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, NamedTuple

from jinja2 import Undefined
from jinja2.runtime import LoopContext

CHARACTERS = 16  # per step
DEPTH = 40  # of lists in lists

_ITERATORS = (Iterator, KeysView, ValuesView, ItemsView)
_CONVERSION = re.compile(r"%(?:\([^()%]*\))?[-+ #0]?[0-9]{0,2}(?:\.[0-9]{0,2})?[a-zA-Z%]")


class LimitError(Exception):
    """A template exceeds a limit; the message says which."""


class Weight(NamedTuple):
    """The size of a value with everything in it; a part that occurs twice counts twice."""

    size: int  # items and characters
    depth: int
    is_plain: bool  # only text, numbers, lists and mappings, which can be written out


_ONE = Weight(1, 0, True)
_OPAQUE = Weight(1, 0, False)


class TemplateBudget:
    """The remaining steps of one rendering, and the largest value that it may create.

    Args:
        steps: the maximum number.
        largest: items and characters that a single value may have.
        inert: function that was applied to all texts of the conversation.
    """

    def __init__(self, steps: int, largest: int, inert: Callable[[str], str] = str) -> None:
        self.inert = inert
        self._left = steps
        self._largest = largest
        self._weights: dict[int, tuple[Weight, object]] = {}  # by id; holds the object, so that its id stays unique

    def spend(self, steps: int = 1) -> None:
        """Spends steps.

        Raises:
            LimitError: fewer are left.
        """
        self._left -= steps
        if self._left < 0:
            raise LimitError("it takes more steps than any template needs")

    def made(self, value: Any) -> Any:
        """Spends steps for a new value and returns it, an iterator as the list of its items."""
        if isinstance(value, str):
            self.spend(1 + len(value) // CHARACTERS)
        elif isinstance(value, _ITERATORS) and not isinstance(value, LoopContext):
            items = []
            for item in value:
                self.spend()
                items.append(item)
            value = items
        self.weigh(value)
        return value

    def look(self, value: Any) -> Any:
        """Spends steps for iterating over the items of a value, not for their content."""
        length = length_of(value)
        self.spend(1 + (length // CHARACTERS if isinstance(value, str) else length))
        return value

    def read(self, value: Any) -> Any:
        """Spends steps for reading all of a value."""
        self.spend(1 + self.weigh(value).size // CHARACTERS)
        return value

    def write(self, value: Any) -> Any:
        """Spends steps for writing out a value.

        Raises:
            LimitError: it is no text, number, list or mapping.
        """
        weight = self.weigh(value)
        if not weight.is_plain:
            raise LimitError(f"it writes out a {type(value).__name__}, which is not text")
        self.spend(1 + weight.size // CHARACTERS)
        return value

    def weigh(self, value: Any) -> Weight:
        """Returns the size of a value; steps are spent at the first call.

        Raises:
            LimitError: it is larger or deeper than a value may be.
        """
        if isinstance(value, str):
            weight = Weight(len(value) + 2, 0, True)
        elif value is None or isinstance(value, bool | float):
            return _ONE
        elif isinstance(value, int):
            weight = Weight(1 + value.bit_length() // CHARACTERS, 0, True)
        elif isinstance(value, range):
            weight = Weight(1 + len(value), 0, True)
        elif isinstance(value, list | tuple | Mapping):
            known = self._weights.get(id(value))
            return known[0] if known is not None else self._weigh_items(value)
        else:
            return _ONE if isinstance(value, Undefined) else _OPAQUE
        return self._bounded(weight)

    def _weigh_items(self, value: Any) -> Weight:
        self.spend(1 + len(value))
        size, depth, is_plain = 2, 0, True
        parts = (part for pair in value.items() for part in pair) if isinstance(value, Mapping) else value
        for part in parts:
            inner = self.weigh(part)
            size, depth, is_plain = size + inner.size, max(depth, inner.depth), is_plain and inner.is_plain
        weight = self._bounded(Weight(size, depth + 1, is_plain))
        self._weights[id(value)] = weight, value
        return weight

    def _bounded(self, weight: Weight) -> Weight:
        if weight.size > self._largest:
            raise LimitError("it makes a value larger than any template needs")
        if weight.depth > DEPTH:
            raise LimitError(f"it makes lists nested deeper than {DEPTH} levels")
        return weight


def length_of(value: Any) -> int:
    """Returns the number of a value's characters or items; 0 if it has none."""
    return len(value) if isinstance(value, str | list | tuple | dict | range) else 0


def check_percent(form: str) -> str:
    """Checks that the fields of a format string for ``%`` are at most 99 wide.

    Raises:
        LimitError: it has other fields.
    """
    if "%" in _CONVERSION.sub("", form):
        raise LimitError("it formats a field that is wider than 99 characters, or of no known form")
    return form

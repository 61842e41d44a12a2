"""Validates the fields of an imported JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from app.library.errors import LibraryError
from app.library.records import LARGEST_SEED, LATEST, LONGEST_NAME, LONGEST_TEXT, details_of
from engine import SafelightError

Value = TypeVar("Value")


class Fields:
    """Typed access to the fields of one object; ``place`` names it in error messages.

    Methods raise LibraryError if a field is missing or wrong.
    """

    def __init__(self, raw: object, place: str) -> None:
        self.place = place
        if not isinstance(raw, dict):
            raise LibraryError(f"{place} is damaged: an object is missing. Export the conversation again")
        self._raw: dict[str, Any] = raw

    def wrong(self, name: str, why: str) -> LibraryError:
        """Returns an error that names the field."""
        return LibraryError(f"{self.place} is damaged: “{name}” {why}. Export the conversation again")

    def text(self, name: str, most: int = LONGEST_TEXT) -> str:
        """Returns a text of at most ``most`` characters; may be empty."""
        value = self._raw.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "must be a text")
        if len(value) > most:
            raise self.wrong(name, f"is longer than {most:,} characters")
        return value

    def name(self, name: str) -> str:
        """Returns a text of at most ``LONGEST_NAME`` characters; may be empty."""
        return self.text(name, LONGEST_NAME)

    def details(self, name: str) -> str:
        """Returns a text that contains a JSON object, or is empty."""
        value = self.text(name)
        try:
            details_of(value, name)
        except SafelightError:
            raise self.wrong(name, "must be a JSON object in a text") from None
        return value

    def time(self, name: str) -> float:
        """Returns a time in seconds since 1970; NaN is refused."""
        value = self._raw.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LATEST:
            raise self.wrong(name, "must be a time in seconds")
        return float(value)

    def truth(self, name: str) -> bool:
        """Returns True or False."""
        value = self._raw.get(name)
        if not isinstance(value, bool):
            raise self.wrong(name, "must be true or false")
        return value

    def whole(self, name: str) -> int:
        """Returns a whole number from 0 to ``LARGEST_SEED``."""
        value = self._raw.get(name)
        if type(value) is not int or not 0 <= value <= LARGEST_SEED:
            raise self.wrong(name, "must be a whole number")
        return value

    def whole_or_none(self, name: str) -> int | None:
        """Returns a whole number as ``whole``, or None for null or a missing field."""
        return self.whole(name) if self._raw.get(name) is not None else None

    def one_of(self, name: str, allowed: Sequence[Value]) -> Value:
        """Returns a value that must be one of ``allowed``, type included."""
        value = self._raw.get(name)
        for other in allowed:
            if type(value) is type(other) and value == other:
                return other
        raise self.wrong(name, f"must be one of {', '.join(map(str, allowed))}")

    def items(self, name: str, most: int, *, is_optional: bool = False) -> list[object]:
        """Returns a list of at most ``most`` items; an empty one if it is missing and ``is_optional``."""
        value = self._raw.get(name, [] if is_optional else None)
        if not isinstance(value, list):
            raise self.wrong(name, "must be a list")
        if len(value) > most:
            raise self.wrong(name, f"holds more than {most:,}")
        return value

"""Copies and counts the values that a chat template receives: messages and tools come from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import SafelightError

MOST_DEPTH = 32
"""Nested objects and lists."""


class TemplateValues:
    """Copies values, and counts them.

    Args:
        what: name of the values in messages: "the tools".
        most_values: objects, lists, members and items.
        most_characters: of all texts together.
    """

    def __init__(self, what: str, most_values: int, most_characters: int) -> None:
        self.values = self.characters = 0
        self._what, self._most_values, self._most_characters = what, most_values, most_characters

    def copied(self, value: object, depth: int = MOST_DEPTH) -> Any:
        """Copies a value of dicts, lists, texts and numbers.

        Raises:
            SafelightError: it is too deep or too large, or something else is in it.
        """
        self.values += 1
        if self.values > self._most_values:
            raise SafelightError(f"{self._what} hold more than {self._most_values:,} values; send fewer of them")
        if isinstance(value, str):
            self.characters += len(value)
            if self.characters > self._most_characters:
                raise SafelightError(
                    f"{self._what} have more than {self._most_characters:,} characters; send fewer or shorter ones"
                )
            return value
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth == 0:
            raise SafelightError(f"{self._what} are nested deeper than {MOST_DEPTH} levels; simplify them")
        if isinstance(value, Mapping):
            return {self._key(key): self.copied(inner, depth - 1) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.copied(inner, depth - 1) for inner in value]
        raise SafelightError(f"{self._what} hold a {type(value).__name__}, which is neither text nor JSON; remove it")

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise SafelightError(f"{self._what} have a key that is no text; write it as one")
        self.characters += len(key)
        return key

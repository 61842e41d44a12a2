"""Texts with holes, as people write them: ``[[…]]`` has no length, ``[[3]]``, ``[[20 words]]``, ``[[12 tokens]]`` have.

A number alone directly behind a letter or a bracket is code and no hole; nor is anything in backticks. Knows no tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from engine.declared import read
from engine.errors import SafelightError, quoted

INSTRUCTION = "Fill in the gap."
"""The message to a model that gets nothing but a text with holes; the embedded model was trained on these words."""
REQUEST_END = "\n---\n"
"""The line that ends what is said to the model; behind it stands the text with holes."""
MAX_HOLES = 64
MAX_LENGTH = 2_048  # words or tokens of a hole

_HOLE = re.compile(
    r"(?<!`)\[\[ ?(?:…|\.{3}|_{1,3}|([0-9]{1,9}) ?(words?|tokens?)) ?\]\](?!`)"
    r"|(?<![\w\])`\[])\[\[([0-9]{1,9})\]\](?![\](`])"  # which may be code, too
)
Unit: TypeAlias = Literal["words", "tokens", "percent"]


@dataclass(frozen=True)
class Hole:
    """A place in a text where a model writes.

    Args:
        length: in ``unit``; None if the model chooses it.
        like: the text whose tokens a length in percent is of.

    Raises:
        SafelightError: a length outside of its bounds.
    """

    length: int | None = None
    unit: Unit = "words"
    like: str = ""

    def __post_init__(self) -> None:
        if self.length is not None and not 1 <= self.length <= MAX_LENGTH:
            raise SafelightError(
                f"a gap has 1 to {MAX_LENGTH:,} words or tokens, not {quoted(self.length)}; write [[…]] to leave it "
                "to the model"
            )


Outline: TypeAlias = tuple[str | Hole, ...]
"""A text in parts: what was written, and holes."""


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Yields the start and the end of each hole's brackets."""
    return (match.span() for match in _HOLE.finditer(text))


def parse(text: str) -> tuple[str, Outline]:
    """Splits what a person wrote into what is said to the model, and the text with holes; no parts if it has no hole.

    Raises:
        SafelightError: too many holes, or one that is too long.
    """
    request, behind = "", text
    if REQUEST_END in text:
        before, after = text.split(REQUEST_END, 1)
        if _HOLE.search(after) and not _HOLE.search(before):
            request, behind = before.strip(), after
    parts: list[str | Hole] = []
    end = 0
    for match in _HOLE.finditer(behind):
        unit: Unit = "tokens" if (match[2] or "").startswith("token") else "words"
        length = match[1] or match[3]
        parts += [behind[end : match.start()], Hole(None if length is None else int(length), unit)]
        end = match.end()
    if not parts:
        return "", ()
    outline = tuple(part for part in (*parts, behind[end:]) if part)
    check_outline(outline)
    return request, outline


def as_written(outline: Outline) -> str:
    """Returns an outline in one text, its holes without their lengths."""
    return "".join(part if isinstance(part, str) else "[[…]]" for part in outline)


def read_outline(raw: Any) -> Outline:
    """Reads an outline from JSON: a list of texts, and of objects with the fields of a hole.

    Raises:
        SafelightError: it is none, or has too many holes.
    """
    parts: tuple[Any, ...] = read(tuple[Any, ...], raw, "an outline")
    outline = tuple(part if isinstance(part, str) else read(Hole, part, "a gap", is_strict=True) for part in parts)
    check_outline(outline)
    return outline


def check_outline(outline: Outline) -> None:
    """Checks the number of holes.

    Raises:
        SafelightError: there are too many.
    """
    count = sum(isinstance(part, Hole) for part in outline)
    if count > MAX_HOLES:
        raise SafelightError(f"the text has {count} gaps, and {MAX_HOLES} are the most; send it in parts")

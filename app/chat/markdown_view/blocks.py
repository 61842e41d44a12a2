"""The parts of a parsed Markdown text as plain data, and flattened to rows, each with its depth. No parser, no Qt.

A text may contain characters that reverse the reading order, end the line or have a meaning for the layout engine.
``safe`` makes them visible; none is dropped silently.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

# Overrides and embeddings could show a text in another order than it has; plain marks (LRM, RLM, ALM) cannot.
_TURNS = "\u202a-\u202e\u2066-\u2069"
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
# Lone surrogates, non-characters (Qt marks frames with some of them) and the object replacement character.
_NONE = "\ud800-\udfff\ufdd0-\ufdef\ufffc\ufffe\uffff"
_UNSAFE = re.compile(f"[{_TURNS}{_CONTROLS}{_NONE}]")


def safe(text: str) -> str:
    """Returns the text with every character visible; its lines end with ``\\n``."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return _UNSAFE.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures
    if code == 0x7F:
        return "\u2421"
    if 0x80 <= code < 0xA0 or chr(code) in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069":
        return f"[U+{code:04X}]"
    return "\ufffd"


@lru_cache(maxsize=1024)
def is_rtl(text: str) -> bool:
    """Returns True if the first letter with a direction is written from right to left."""
    for letter in text:
        direction = unicodedata.bidirectional(letter)
        if direction in ("R", "AL"):
            return True
        if direction == "L":
            return False
    return False


Align = Literal["", "left", "center", "right"]


@dataclass(frozen=True)
class Text:
    """Characters in one style. ``link`` is an address that may be opened, or empty."""

    text: str
    bold: bool = False
    italic: bool = False
    struck: bool = False
    code: bool = False
    link: str = ""


@dataclass(frozen=True)
class Formula:
    """LaTeX within a line. ``written`` is its original text with delimiters, for copies and if it cannot be drawn."""

    source: str
    written: str


Inline = Text | Formula
Inlines = tuple[Inline, ...]


@dataclass(frozen=True)
class Paragraph:
    inlines: Inlines


@dataclass(frozen=True)
class Heading:
    level: int  # 1 to 6
    inlines: Inlines


@dataclass(frozen=True)
class Code:
    text: str
    language: str = ""


@dataclass(frozen=True)
class Math(Formula):
    """A displayed formula."""


@dataclass(frozen=True)
class Item:
    """An item of a list. ``done`` is None unless the item is a task."""

    blocks: tuple[Block, ...]
    done: bool | None = None


@dataclass(frozen=True)
class Listing:
    """A list. ``start`` is its first number, None for bullets. ``tight`` places items close together."""

    items: tuple[Item, ...]
    start: int | None = None
    tight: bool = True


@dataclass(frozen=True)
class Quote:
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Table:
    """A table. ``rows`` has the header row first; all rows are as long as ``aligns``."""

    aligns: tuple[Align, ...]
    rows: tuple[tuple[Inlines, ...], ...]


@dataclass(frozen=True)
class ThematicBreak:
    """A horizontal line."""


Block = Paragraph | Heading | Code | Math | Listing | Quote | Table | ThematicBreak


def plain(inlines: Inlines) -> str:
    return "".join(part.written if isinstance(part, Formula) else part.text for part in inlines)


BULLETS = ("•", "◦", "▪")
DONE, OPEN = "☑", "☐"

MAX_IN_ROW = 4_000
"""Most characters of a row, since the time to lay one out grows with their square."""

Content = Paragraph | Heading | Code | Math | Table | ThematicBreak


@dataclass(frozen=True)
class MarkdownRow:
    """One row of a text. ``indent`` counts levels; ``bars`` are the levels with the vertical line of a quote.

    ``marker`` is the bullet or number before it. ``joint`` is the text between this row and the one above, if both are
    parts of one long text; else None.
    """

    content: Content
    indent: int = 0
    bars: tuple[int, ...] = ()
    marker: str = ""
    close: bool = False  # with a smaller gap to the row above
    joint: str | None = None

    @property
    def is_boxed(self) -> bool:
        """True if the row scrolls by itself when it is too wide."""
        return isinstance(self.content, (Code, Math, Table))

    @property
    def copied(self) -> str:
        """The text of the whole row when copied."""
        match self.content:
            case Paragraph(inlines) | Heading(_, inlines):
                return f"{self.marker} {plain(inlines)}" if self.marker else plain(inlines)
            case Code(text):
                return text
            case Math(_, written):
                return written
            case Table(_, rows):
                return "\n".join("\t".join(plain(cell) for cell in row) for row in rows)
            case ThematicBreak():
                return "---"


def flatten(blocks: Iterable[Block]) -> tuple[MarkdownRow, ...]:
    return tuple(row for long in _rows(blocks, 0, (), 0) for row in _cut(long))


def verbatim_rows(text: str, *, quoted: bool = False) -> Iterator[tuple[MarkdownRow, ...]]:
    """Yields the rows of a text that is not Markdown; ``quoted`` draws a vertical line next to them."""
    for part, joint in cut(text):
        row = MarkdownRow(Paragraph((Text(safe(part)),)), joint=joint)
        yield (replace(row, indent=1, bars=(0,)) if quoted else row,)


def cut(text: str) -> Iterator[tuple[str, str | None]]:
    """Yields parts of a text short enough for a row, each with the removed separator before it (None for the first).

    Cuts at line ends, or else at a space, if there is one.
    """
    start, joint = 0, None
    while start < len(text):
        end = start + MAX_IN_ROW
        if end >= len(text):
            yield text[start:], joint
            return
        place = max(text.rfind("\n", start + 1, end), -1)
        if place < 0:
            place = text.rfind(" ", start + MAX_IN_ROW // 2, end)
        yield text[start : place if place > 0 else end], joint
        joint = text[place] if place > 0 else ""
        start = place + 1 if place > 0 else end
    if joint:  # the text ends with a separator
        yield "", joint


def _cut(row: MarkdownRow) -> Iterable[MarkdownRow]:
    """Splits a too long paragraph or heading of one style into several rows; returns others as they are."""
    content = row.content
    if not isinstance(content, Paragraph | Heading) or len(content.inlines) != 1:
        return (row,)
    (text,) = content.inlines
    if not isinstance(text, Text) or len(text.text) <= MAX_IN_ROW:
        return (row,)
    rows = []
    for part, joint in cut(text.text):
        inlines = (replace(text, text=part),)
        rows.append(replace(row, content=replace(content, inlines=inlines), joint=joint))
    return [rows[0], *(replace(further, marker="") for further in rows[1:])]


def _rows(blocks: Iterable[Block], indent: int, bars: tuple[int, ...], depth: int) -> Iterator[MarkdownRow]:
    for block in blocks:
        match block:
            case Quote(inner):
                yield from _rows(inner, indent + 1, (*bars, indent), depth)
            case Listing():
                yield from _list(block, indent, bars, depth)
            case _:
                yield MarkdownRow(block, indent, bars)


def _list(block: Listing, indent: int, bars: tuple[int, ...], depth: int) -> Iterator[MarkdownRow]:
    for number, item in enumerate(block.items):
        if item.done is not None:
            marker = DONE if item.done else OPEN
        elif block.start is not None:
            marker = f"{block.start + number}."
        else:
            marker = BULLETS[min(depth, len(BULLETS) - 1)]
        first = item.blocks[0] if item.blocks else None
        inner = item.blocks
        if not isinstance(first, (Paragraph, Heading)):
            inner = (Paragraph(()), *inner)  # an empty row for the marker
        for place, row in enumerate(_rows(inner, indent + 1, bars, depth + 1)):
            is_close = block.tight and (place > 0 or number > 0 or depth > 0)
            yield MarkdownRow(
                row.content, row.indent, row.bars, marker if place == 0 else row.marker, is_close or row.close
            )

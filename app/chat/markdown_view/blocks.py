"""The parts of a parsed Markdown text, as plain data. Knows no parser, no Qt and no colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
class Math:
    """A displayed formula; fields as in ``Formula``."""

    source: str
    written: str


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

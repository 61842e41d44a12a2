"""A text's sections, read and laid out a little at a time from the top, and its selection. No widget.

A part that is not yet laid out takes no space: a long text grows downwards, and nothing above it moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from time import thread_time

from PySide6.QtCore import QPointF
from PySide6.QtGui import QTextCursor

from app.chat.markdown_view.blocks import Heading, MarkdownRow, Paragraph, flatten, plain, verbatim_rows
from app.chat.markdown_view.document import Style
from app.chat.markdown_view.parse import is_readable, reading
from app.chat.markdown_view.section import BETWEEN, END, Section
from app.chat.markdown_view.slow import Job

MAX_SHOWN, MAX_LINES = 24_000, 800
"""Largest number of characters and lines that are laid out before the user chooses "Show all"."""


def rows_of(text: str, *, markdown: bool, quoted: bool) -> Iterator[MarkdownRow]:
    """Yields the rows of a text; each is read when requested."""
    if not (markdown and is_readable(text)):
        for rows in verbatim_rows(text, quoted=quoted):
            yield from rows
        return
    read, done = reading(text), 0
    while done < len(read.blocks) or read.step():
        new = read.blocks[done:]
        done += len(new)
        yield from flatten(new)


def shown_part(text: str) -> str:
    """Returns the part of a text that is shown at first: all of it, or whole lines from its beginning."""
    if text.count("\n") >= MAX_LINES:
        text = "\n".join(text.split("\n", MAX_LINES)[:MAX_LINES])
    if len(text) <= MAX_SHOWN:
        return text
    cut = text.rfind("\n", MAX_SHOWN // 2, MAX_SHOWN)
    return text[: cut if cut > 0 else MAX_SHOWN]


FULL_SECTION, MAX_IN_SECTION = 6_000, 12_000
"""Characters after which paragraphs are cut into another section: at a row that is not nested, and at any row."""
ROW_WEIGHT = 50  # layout cost of a row in addition to its characters, in characters


def sections(rows: Iterable[MarkdownRow], style: Style) -> Iterator[Section]:
    """Yields rows as sections, in order, each small enough to be laid out quickly."""
    flowing: list[MarkdownRow] = []
    weight = 0
    for row in rows:
        added = ROW_WEIGHT + (len(plain(row.content.inlines)) if isinstance(row.content, Paragraph | Heading) else 0)
        # A cut within a list or a quote would break its vertical lines.
        if flowing and (row.is_boxed or weight + added > (MAX_IN_SECTION if row.indent else FULL_SECTION)):
            yield Section(tuple(flowing), style)
            flowing, weight = [], 0
        if row.is_boxed:
            yield Section((row,), style)
        else:
            flowing.append(row)
            weight += added
    if flowing:
        yield Section(tuple(flowing), style)


class Sheet:
    """The sections and their layout. ``read`` and ``lay_out`` work for about ``seconds``, at least for one section."""

    def __init__(self, rows: Iterable[MarkdownRow], style: Style) -> None:
        self.sections: list[Section] = []
        self.height = 0
        self._rest: Iterator[Section] | None = sections(rows, style)
        self._shown = 0  # number of sections that have a place
        self._laid = 0  # how many of them are laid out for the present width
        self._left, self._width = 0, -1

    @property
    def shown(self) -> list[Section]:
        return self.sections[: self._shown]

    @property
    def is_done(self) -> bool:
        """True if all of the text is laid out."""
        return self._rest is None and self._laid == len(self.sections)

    def read(self, seconds: float) -> None:
        """Reads more sections of the text, for about ``seconds`` of this thread's processor time."""
        began = thread_time()
        while self._rest is not None:
            section = next(self._rest, None)
            if section is None:
                self._rest = None
                return
            self.sections.append(section)
            if thread_time() - began > seconds:
                return

    def set_width(self, left: int, width: int) -> None:
        """Sets left edge and width in pixels; sections keep their place until they are laid out again."""
        if (left, width) != (self._left, self._width):
            self._left, self._width = left, width
            self._laid = 0

    def lay_out(self, seconds: float) -> None:
        """Lays out more sections for the present width, for about ``seconds``; reads more of the text if needed."""
        began = thread_time()
        while not self.is_done:
            if self._laid == len(self.sections):
                self.read(0)
                continue
            section = self.sections[self._laid]
            section.place(self._left, section.rect.top(), self._width)
            self._laid += 1
            self._shown = max(self._shown, self._laid)
            if thread_time() - began > seconds:
                break
        self.stack()

    def apply(self, jobs: Collection[Job], seconds: float) -> bool:
        """Applies the results of jobs, for about ``seconds``. Returns True if all are applied."""
        began = thread_time()
        for number, section in enumerate(self.sections):
            if section.invalidate(jobs):
                if number < self._shown:
                    section.place(self._left, section.rect.top(), self._width)
                if thread_time() - began > seconds:
                    break
        self.stack()
        return not any(section.waits_for(jobs) for section in self.sections)

    def stack(self) -> None:
        """Stacks the sections that have a place, and sets the height."""
        y = 0
        above = None
        for section in islice(self.sections, self._shown):
            y += section.gap(above)
            section.move(y)
            y += section.rect.height()
            above = section
        self.height = y


Place = tuple[int, int]  # section, position in its document
_FORWARD = (
    QTextCursor.MoveOperation.NextCharacter,
    QTextCursor.MoveOperation.NextWord,
    QTextCursor.MoveOperation.Down,
    QTextCursor.MoveOperation.EndOfLine,
)


class Selection:
    """A selection from ``anchor``, where it began, to ``cursor``; empty if they are the same."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self.anchor: Place = (0, 0)
        self.cursor: Place = (0, 0)

    @property
    def is_empty(self) -> bool:
        return self.anchor == self.cursor

    def select_all(self) -> None:
        """Selects the whole text, including the part not yet laid out."""
        self.anchor, self.cursor = (0, 0), (END, END)

    def select_word(self, place: Place) -> None:
        number, position = place
        cursor = self._sheet.sections[number].cursor(position)
        cursor.select(QTextCursor.SelectionType.WordUnderCursor)
        self.anchor, self.cursor = (number, cursor.selectionStart()), (number, cursor.selectionEnd())

    def extend(self, operation: QTextCursor.MoveOperation) -> None:
        """Moves the end that follows the keyboard, also to the section before or after this one."""
        sections = self._sheet.sections
        if not sections:
            return
        number = min(self.cursor[0], len(sections) - 1)
        cursor = sections[number].cursor(min(self.cursor[1], sections[number].end))
        if cursor.movePosition(operation):
            self.cursor = number, cursor.position()
        elif operation in _FORWARD and number + 1 < len(sections):
            self.cursor = number + 1, 0
        elif operation not in _FORWARD and number:
            self.cursor = number - 1, sections[number - 1].end

    def text(self) -> str:
        """Returns the selected text as it is copied."""
        return "" if self.is_empty else self._between(*self._ends())

    def before(self) -> str:
        """Returns the text before the selection, as it is copied."""
        first = self._ends()[0]
        return "" if first == (0, 0) else self._between((0, 0), first)

    def _between(self, first: Place, last: Place) -> str:
        sections = self._sheet.sections
        parts: list[str] = []
        for number in range(first[0], min(last[0], len(sections) - 1) + 1):
            section = sections[number]
            start = first[1] if number == first[0] else 0
            joint = section.joint(sections[number - 1]) if parts else ""
            parts.append(joint + section.copied(start, last[1] if number == last[0] else END))
        return "".join(parts)

    def within(self, number: int) -> tuple[int, int] | None:
        """Returns the start and end of the selection within a section; None if nothing is selected in it."""
        first, last = self._ends()
        if self.is_empty or not first[0] <= number <= last[0]:
            return None
        end = self._sheet.sections[number].end
        return first[1] if number == first[0] else 0, last[1] if number == last[0] else end

    def place_at(self, point: QPointF) -> Place:
        shown = self._sheet.shown
        if not shown:
            return (0, 0)
        tops = (number for number, section in enumerate(shown) if point.y() <= section.rect.bottom() + BETWEEN / 2)
        number = next(tops, len(shown) - 1)
        return (number, shown[number].position_at(point))

    def _ends(self) -> tuple[Place, Place]:
        return min(self.anchor, self.cursor), max(self.anchor, self.cursor)

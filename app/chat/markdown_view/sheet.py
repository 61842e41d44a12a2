"""A text's sections, one below the other, read and laid out a little at a time from the top. No widget.

A part that is not yet laid out takes no space: a long text grows downwards, and nothing above it moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from time import thread_time

from app.chat.markdown_view.blocks import Heading, Paragraph, plain
from app.chat.markdown_view.document import Style
from app.chat.markdown_view.rows import MarkdownRow
from app.chat.markdown_view.section import Section
from app.chat.markdown_view.slow import Job

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

    def take(self, jobs: Collection[Job], seconds: float) -> bool:
        """Applies the results of jobs, for about ``seconds``. Returns True if all are applied."""
        began = thread_time()
        for number, section in enumerate(self.sections):
            if section.take(jobs):
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

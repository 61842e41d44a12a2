"""A text's pieces, one below the other, read and laid out a little at a time from the top. No widget.

A part that is not yet laid out takes no space: a long text grows downwards, and nothing above it moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from time import thread_time

from app.chat.prose.blocks import Heading, Paragraph, plain
from app.chat.prose.document import Style
from app.chat.prose.piece import Piece
from app.chat.prose.rows import ProseRow
from app.chat.prose.slow import Job

FULL_PIECE, MOST_IN_PIECE = 6_000, 12_000
"""Characters after which paragraphs are cut into another piece: at a row that is not nested, and at any row."""
ROW_WEIGHT = 50  # layout cost of a row in addition to its characters, in characters


def pieces(rows: Iterable[ProseRow], style: Style) -> Iterator[Piece]:
    """Yields rows as pieces, in order, each small enough to be laid out quickly."""
    flowing: list[ProseRow] = []
    weight = 0
    for row in rows:
        added = ROW_WEIGHT + (len(plain(row.content.inlines)) if isinstance(row.content, Paragraph | Heading) else 0)
        # A cut within a list or a quote would break its vertical lines.
        if flowing and (row.is_boxed or weight + added > (MOST_IN_PIECE if row.indent else FULL_PIECE)):
            yield Piece(tuple(flowing), style)
            flowing, weight = [], 0
        if row.is_boxed:
            yield Piece((row,), style)
        else:
            flowing.append(row)
            weight += added
    if flowing:
        yield Piece(tuple(flowing), style)


class Sheet:
    """The pieces and their layout. ``read`` and ``lay_out`` work for about ``seconds``, at least for one piece."""

    def __init__(self, rows: Iterable[ProseRow], style: Style) -> None:
        self.pieces: list[Piece] = []
        self.height = 0
        self._rest: Iterator[Piece] | None = pieces(rows, style)
        self._shown = 0  # number of pieces that have a place
        self._laid = 0  # how many of them are laid out for the present width
        self._left, self._width = 0, -1

    @property
    def shown(self) -> list[Piece]:
        return self.pieces[: self._shown]

    @property
    def is_done(self) -> bool:
        """True if all of the text is laid out."""
        return self._rest is None and self._laid == len(self.pieces)

    def read(self, seconds: float) -> None:
        """Reads more pieces of the text, for about ``seconds`` of this thread's processor time."""
        began = thread_time()
        while self._rest is not None:
            piece = next(self._rest, None)
            if piece is None:
                self._rest = None
                return
            self.pieces.append(piece)
            if thread_time() - began > seconds:
                return

    def set_width(self, left: int, width: int) -> None:
        """Sets left edge and width in pixels; pieces keep their place until they are laid out again."""
        if (left, width) != (self._left, self._width):
            self._left, self._width = left, width
            self._laid = 0

    def lay_out(self, seconds: float) -> None:
        """Lays out more pieces for the present width, for about ``seconds``; reads more of the text if needed."""
        began = thread_time()
        while not self.is_done:
            if self._laid == len(self.pieces):
                self.read(0)
                continue
            piece = self.pieces[self._laid]
            piece.place(self._left, piece.rect.top(), self._width)
            self._laid += 1
            self._shown = max(self._shown, self._laid)
            if thread_time() - began > seconds:
                break
        self.stack()

    def take(self, jobs: Collection[Job], seconds: float) -> bool:
        """Applies the results of jobs, for about ``seconds``. Returns True if all are applied."""
        began = thread_time()
        for number, piece in enumerate(self.pieces):
            if piece.take(jobs):
                if number < self._shown:
                    piece.place(self._left, piece.rect.top(), self._width)
                if thread_time() - began > seconds:
                    break
        self.stack()
        return not any(piece.waits_for(jobs) for piece in self.pieces)

    def stack(self) -> None:
        """Stacks the pieces that have a place, and sets the height."""
        y = 0
        above = None
        for piece in islice(self.pieces, self._shown):
            y += piece.gap(above)
            piece.move(y)
            y += piece.rect.height()
            above = piece
        self.height = y

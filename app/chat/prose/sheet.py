"""A text's pieces, one under the other: read and laid out a little at a time, from the top. No widget.

What has not been laid out yet takes no room: a long text grows downwards, and nothing above it moves.
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
"""Characters, after which a flow is cut where nothing is nested, and after which it is cut anywhere."""
ROW_WEIGHT = 50  # what a row costs besides its characters, in characters


def pieces(rows: Iterable[ProseRow], style: Style) -> Iterator[Piece]:
    """Cut rows into stretches, in order; none takes long to lay out."""
    flowing: list[ProseRow] = []
    weight = 0
    for row in rows:
        added = ROW_WEIGHT + (len(plain(row.content.inlines)) if isinstance(row.content, Paragraph | Heading) else 0)
        # Where a piece ends in a list or a quote, its lines would be broken.
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
    """``read`` and ``lay_out`` go on for about as long as they are told, each time by one piece at least."""

    def __init__(self, rows: Iterable[ProseRow], style: Style) -> None:
        self.pieces: list[Piece] = []
        self.height = 0
        self._rest: Iterator[Piece] | None = pieces(rows, style)
        self._shown = 0  # pieces that have a place
        self._laid = 0  # of these, laid out for the present width
        self._left, self._width = 0, -1

    @property
    def shown(self) -> list[Piece]:
        """The pieces that have a place."""
        return self.pieces[: self._shown]

    @property
    def is_done(self) -> bool:
        """Whether all of the text is laid out."""
        return self._rest is None and self._laid == len(self.pieces)

    def read(self, seconds: float) -> None:
        """Make pieces of more of the text."""
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
        """What has a place keeps it until it is laid out again."""
        if (left, width) != (self._left, self._width):
            self._left, self._width = left, width
            self._laid = 0

    def lay_out(self, seconds: float) -> None:
        """Give more pieces their place at the present width, and read on where there are no more."""
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
        """Show what has come of jobs. Returns whether that is done."""
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
        """Put what has a place under what is above it."""
        y = 0
        above = None
        for piece in islice(self.pieces, self._shown):
            y += piece.gap(above)
            piece.move(y)
            y += piece.rect.height()
            above = piece
        self.height = y

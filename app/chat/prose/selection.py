"""What is selected of a text, over all its pieces."""

from __future__ import annotations

from PySide6.QtCore import QPointF
from PySide6.QtGui import QTextCursor

from app.chat.prose.piece import BETWEEN, END
from app.chat.prose.sheet import Sheet

Place = tuple[int, int]  # piece, position in its document


class Selection:
    """From the ``anchor``, where it was begun, to the ``cursor``; nothing is selected where they are the same."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self.anchor: Place = (0, 0)
        self.cursor: Place = (0, 0)

    @property
    def is_empty(self) -> bool:
        return self.anchor == self.cursor

    def select_all(self) -> None:
        """The whole text, also what will only be laid out."""
        self.anchor, self.cursor = (0, 0), (END, END)

    def select_word(self, place: Place) -> None:
        """The word at a place."""
        number, position = place
        start, end = self._sheet.pieces[number].word_at(position)
        self.anchor, self.cursor = (number, start), (number, end)

    def text(self) -> str:
        """What is selected, as it is copied."""
        if self.is_empty:
            return ""
        pieces = self._sheet.pieces
        first, last = self._ends()
        parts: list[str] = []
        for number in range(first[0], min(last[0], len(pieces) - 1) + 1):
            piece = pieces[number]
            start = first[1] if number == first[0] else 0
            joint = piece.joint(pieces[number - 1]) if parts else ""
            parts.append(joint + piece.copied(start, last[1] if number == last[0] else END))
        return "".join(parts)

    def within(self, number: int) -> tuple[int, int] | None:
        """What of a piece is selected, from and to; None where nothing is."""
        first, last = self._ends()
        if self.is_empty or not first[0] <= number <= last[0]:
            return None
        end = self._sheet.pieces[number].end
        return first[1] if number == first[0] else 0, last[1] if number == last[0] else end

    def place_at(self, point: QPointF) -> Place:
        """The place nearest to a point."""
        shown = self._sheet.shown
        if not shown:
            return (0, 0)
        tops = (number for number, piece in enumerate(shown) if point.y() <= piece.rect.bottom() + BETWEEN / 2)
        number = next(tops, len(shown) - 1)
        return (number, shown[number].position_at(point))

    def hold(self) -> tuple[QTextCursor | None, ...]:
        """Cursors that stay at both ends while documents change, for ``restore``; None for one that needs none."""
        return tuple(self._held(place) for place in (self.anchor, self.cursor))

    def restore(self, held: tuple[QTextCursor | None, ...]) -> None:
        self.anchor, self.cursor = [
            place if cursor is None else (place[0], cursor.position())
            for place, cursor in zip((self.anchor, self.cursor), held, strict=True)
        ]

    def _held(self, place: Place) -> QTextCursor | None:
        pieces = self._sheet.pieces
        if place[1] == 0 or place[0] >= len(pieces) or pieces[place[0]].code is not None:
            return None
        return pieces[place[0]].cursor(place[1])

    def _ends(self) -> tuple[Place, Place]:
        return min(self.anchor, self.cursor), max(self.anchor, self.cursor)

"""The selection in a text, across all its sections."""

from __future__ import annotations

from PySide6.QtCore import QPointF
from PySide6.QtGui import QTextCursor

from app.chat.markdown_view.section import BETWEEN, END
from app.chat.markdown_view.sheet import Sheet

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
        start, end = self._sheet.sections[number].word_at(position)
        self.anchor, self.cursor = (number, start), (number, end)

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

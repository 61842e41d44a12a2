"""A read-only text widget that reports chosen offsets."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QTextCharFormat, QTextCursor, QTextOption
from PySide6.QtWidgets import QTextEdit

from app.design.fonts import TEXT_LEAD, px, ui_font
from app.design.text_field import PlainText
from app.state.run.text_map import units
from app.system.i18n import tr


class TextPane(PlainText):
    """Plain text that can be selected and copied, but not changed."""

    chosen = Signal(int)  # an offset in UTF-16 units

    def __init__(self) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setTabChangesFocus(True)
        self.setAccessibleName(tr("The text at this step"))
        self.setPlaceholderText(tr("No text at this step."))
        self._text = ""

    def dress(self) -> None:
        """Sets the font to the user's text size."""
        font = ui_font()
        font.setPixelSize(px(TEXT_LEAD))
        self.setFont(font)

    def bring(self, text: str) -> None:
        """Shows a text. Only the part between the common beginning and the common end is replaced."""
        if text == self._text:
            return
        old, self._text = self._text, text
        low = _shared(old, text)
        tail = _shared(old[low:][::-1], text[low:][::-1])
        cursor = QTextCursor(self.document())
        cursor.setPosition(units(old[:low]))
        cursor.setPosition(units(old[: len(old) - tail]), QTextCursor.MoveMode.KeepAnchor)
        cursor.insertText(text[low : len(text) - tail])

    def bring_into_sight(self, offset: int) -> None:
        """Scrolls to an offset and moves the cursor there, unless text is selected."""
        if not self.textCursor().hasSelection():
            cursor = QTextCursor(self.document())
            cursor.setPosition(offset)
            self.setTextCursor(cursor)
            self.ensureCursorVisible()

    def mark(self, low: int, high: int, look: QTextCharFormat) -> QTextEdit.ExtraSelection:
        """Returns a selection that gives the text from ``low`` to ``high`` another format."""
        made = QTextEdit.ExtraSelection()
        cursor = QTextCursor(self.document())
        cursor.setPosition(low)
        cursor.setPosition(high, QTextCursor.MoveMode.KeepAnchor)
        made.cursor, made.format = cursor, look
        return made

    def offset_at(self, point: QPoint) -> int:
        """Returns the offset of the character under a point of the viewport; -1 outside the text."""
        near = self.cursorForPosition(point)
        # The cursor is between two characters, at the nearer side; the point may be on the one before or after it.
        for move in (QTextCursor.MoveOperation.PreviousCharacter, QTextCursor.MoveOperation.NextCharacter):
            other = QTextCursor(near)
            other.movePosition(move)
            a, b = self.cursorRect(near), self.cursorRect(other)
            same_line = a.top() == b.top() and a.top() <= point.y() <= a.bottom()
            if same_line and min(a.left(), b.left()) <= point.x() < max(a.left(), b.left()):
                return min(near.position(), other.position())
        return -1

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and not self.textCursor().hasSelection():
            offset = self.offset_at(event.position().toPoint())
            if offset >= 0:
                self.chosen.emit(offset)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        super().keyPressEvent(event)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.chosen.emit(self.textCursor().position())


def _shared(a: str, b: str) -> int:
    """Returns the number of characters of the common beginning."""
    if a == b[: len(a)]:
        return len(a)
    low, high = 0, min(len(a), len(b))
    while low < high:  # binary search
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low

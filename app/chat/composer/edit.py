"""The field a prompt is typed into: as tall as its text, Enter submits, arrow keys show earlier prompts."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QTextCursor

from app.chat.composer.history import PromptHistory
from app.design.prompt_field import PromptField
from app.system.i18n import tr

MOST_LINES = 9  # as many as a Sudoku has


class PromptEdit(PromptField):
    """A ``PromptField`` with a history of earlier prompts."""

    walked = Signal()  # another prompt of the history is shown

    def __init__(self) -> None:
        super().__init__()
        self.takes_files = True
        self.history = PromptHistory()
        self.setAccessibleName(tr("Prompt"))
        self.setAccessibleDescription(
            tr("Enter sends, Shift+Enter starts a new line, the arrows up and down bring earlier prompts")
        )
        self.document().documentLayout().documentSizeChanged.connect(self._text_resized)

    def set_text(self, text: str) -> None:
        """Puts a text into the field with the cursor behind it, and ends a walk through the history."""
        self.history.leave()
        self.setPlainText(text)
        self.moveCursor(QTextCursor.MoveOperation.End)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier  # macOS sets it for the arrow keys
        if not modifiers and self._walk(event.key()):
            event.accept()
        else:
            super().keyPressEvent(event)

    def _walk(self, key: int) -> bool:
        """Shows another prompt of the history if the key would leave the field. Returns False if nothing was shown.

        Undo brings the text before back. The cursor is placed so that the same key walks further.
        """
        cursor = self.textCursor()
        if key == Qt.Key.Key_Up and not cursor.movePosition(QTextCursor.MoveOperation.Up):
            text, end = self.history.older(self.toPlainText()), QTextCursor.MoveOperation.Start
        elif key == Qt.Key.Key_Down and not cursor.movePosition(QTextCursor.MoveOperation.Down):
            text, end = self.history.newer(self.toPlainText()), QTextCursor.MoveOperation.End
        else:
            return False
        if text is None:
            return False
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
        cursor.movePosition(end)
        cursor.movePosition(QTextCursor.MoveOperation.EndOfLine)
        self.setTextCursor(cursor)
        self.walked.emit()
        return True

    def sizeHint(self) -> QSize:
        lines = max(1, int(self.document().size().height()))  # a plain text document counts lines
        margins = self.contentsMargins()
        above = int(self.document().documentMargin()) + margins.top()
        below = 0 if lines > MOST_LINES else above + margins.bottom() - margins.top() + 2  # no line is cut in half
        return QSize(240, min(lines, MOST_LINES) * self.fontMetrics().lineSpacing() + above + below)

    @Slot()
    def _text_resized(self) -> None:
        self.updateGeometry()

"""Where a prompt is written: the text field, the Send button and a line that says why it cannot be sent."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QSizePolicy, QVBoxLayout, QWidget

from app.controls import button, label

HINT = "Enter sends, Shift+Enter starts a new line"
MOST_LINES = 9  # a Sudoku puzzle


class PromptEdit(QPlainTextEdit):
    """A plain text field as tall as its text; Enter submits."""

    submitted = Signal()
    focus_changed = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Prompt")
        self.setAccessibleDescription(HINT)
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().documentLayout().documentSizeChanged.connect(self._text_resized)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.submitted.emit()
            event.accept()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def sizeHint(self) -> QSize:
        lines = max(1, min(MOST_LINES, int(self.document().size().height())))  # a plain text document counts lines
        margins = self.contentsMargins()
        around = 2 * int(self.document().documentMargin()) + margins.top() + margins.bottom() + 2
        return QSize(240, lines * self.fontMetrics().lineSpacing() + around)

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self.sizeHint().height())

    @Slot()
    def _text_resized(self) -> None:
        self.updateGeometry()


class Composer(QWidget):
    """Emits ``submitted(text)``; the text stays until ``clear``."""

    submitted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._blocked = ""
        self._message = ""
        self.edit = PromptEdit()
        self.edit.submitted.connect(self._submit)
        self.edit.textChanged.connect(self._text_changed)
        self.send = button("Send", "Send the prompt", role="primary")
        self.send.clicked.connect(self._submit)
        self.hint = label(HINT, "caption", wrap=True)

        self._field = QFrame()
        self._field.setProperty("role", "field")
        self.edit.focus_changed.connect(self._mark_focus)
        row = QHBoxLayout(self._field)
        row.setContentsMargins(12, 8, 8, 8)
        row.setSpacing(8)
        row.addWidget(self.edit, 1, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.send, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self._field)
        column.addWidget(self.hint)

    @property
    def text(self) -> str:
        return self.edit.toPlainText()

    def set_text(self, text: str) -> None:
        """Put a text into the field with the cursor behind it."""
        self.edit.setPlainText(text)
        cursor = self.edit.textCursor()
        cursor.movePosition(cursor.MoveOperation.End)
        self.edit.setTextCursor(cursor)

    def block(self, reason: str) -> None:
        """Say why nothing can be sent now; an empty reason allows sending."""
        self._blocked = reason
        self._show_hint()

    def say(self, message: str) -> None:
        """Show a line under the field until the text changes."""
        self._message = message
        self._show_hint()

    def _show_hint(self) -> None:
        self.send.setEnabled(not self._blocked)
        self.send.setToolTip(self._blocked)
        self.send.setAccessibleDescription(self._blocked)
        self.hint.setText(self._message or self._blocked or HINT)

    @Slot(bool)
    def _mark_focus(self, focused: bool) -> None:
        self._field.setProperty("active", focused)
        self._field.style().unpolish(self._field)  # style sheets look at properties only when polishing
        self._field.style().polish(self._field)

    @Slot()
    def _submit(self) -> None:
        if not self._blocked:
            self.submitted.emit(self.text)

    @Slot()
    def _text_changed(self) -> None:
        if self._message:
            self.say("")

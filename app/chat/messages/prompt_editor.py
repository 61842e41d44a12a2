"""Edits a prompt in place: Enter sends, Shift+Enter starts a new line, Esc cancels."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QWidget

from app.chat.composer.edit import GapMarks
from app.chat.markdown_view.widget import PAD
from app.design.controls import button, label
from app.design.layouts import column_of, row_of
from app.design.text_field import PromptField, framed, refusal
from app.system.i18n import tr

MAX_LINES = 16


class EditField(PromptField):
    """A field as tall as its text."""

    cancelled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Edit the prompt"))
        self.setAcceptDrops(False)  # the page takes dropped files
        self._marks = GapMarks(self.document())
        self.document().documentLayout().documentSizeChanged.connect(self.updateGeometry)

    def event(self, event: QEvent) -> bool:
        if (
            isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.ShortcutOverride
            and event.key() == Qt.Key.Key_Escape
        ):
            event.accept()  # else Esc would be the window's shortcut that stops an answer
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.cancelled.emit()
        else:
            super().keyPressEvent(event)

    def sizeHint(self) -> QSize:
        lines = max(1, min(MAX_LINES, int(self.document().size().height())))  # a plain text document counts lines
        around = 2 * int(self.document().documentMargin()) + 2
        return QSize(240, lines * self.fontMetrics().lineSpacing() + around)


class PromptEditor(QWidget):
    """The field with its buttons. ``submit`` gets the changed text; the field stays until its turn is shown.

    ``close`` is called if the edit is cancelled or changed nothing.
    """

    def __init__(self, submit: Callable[[str], object], close: Callable[[], object]) -> None:
        super().__init__()
        self._submit_text, self._close = submit, close
        self._original = ""
        self._can_send = True
        self.field = EditField()
        self.field.submitted.connect(self._submit)
        self.field.cancelled.connect(close)
        self.field.textChanged.connect(self._allow)
        self.hint = label("", "caption", wrap=True)
        self.field.overlong.connect(lambda _text: self.hint.setText(refusal()))
        self.send = button(tr("Send"), tr("Send the edited prompt"), role="primary", clicked=self._submit)
        self.cancel = button(tr("Cancel"), tr("Leave the prompt as it was"), role="plain", clicked=close)
        edited = framed(self.field, column_of(self.field, margins=(12, 8, 12, 8)))
        buttons = row_of((self.hint, 1), self.cancel, self.send, spacing=8)
        self.setLayout(column_of(edited, buttons, margins=(PAD, 0, PAD, 0), spacing=8))

    def edit(self, text: str) -> None:
        """Starts editing a text, which must fit into the field."""
        self.field.setPlainText(text)
        self._original = self.field.raw()  # which has the field's line breaks
        self._allow()
        self.field.moveCursor(QTextCursor.MoveOperation.End)
        self.field.setFocus()

    def set_can_send(self, can_send: bool) -> None:
        """Sets whether the text can be sent now; until then it stays in the field."""
        self._can_send = can_send
        self._allow()

    @Slot()
    def _allow(self) -> None:
        self.send.setEnabled(self._can_send and bool(self.field.raw().strip()))
        stays = tr("The old prompt and what followed stay as another version.")
        self.hint.setText(stays if self._can_send else tr("Nothing can be sent now; what you write stays here."))

    @Slot()
    def _submit(self) -> None:
        self.field.commit()
        text = self.field.raw()
        if text == self._original:
            self._close()
        elif self._can_send and text.strip():
            self._submit_text(text)

"""Texts of several lines, read and copied as they are, and a field that refuses texts whose layout would block the
window, and passes on files."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QMimeData, QSize, Qt, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragMoveEvent,
    QFocusEvent,
    QGuiApplication,
    QImage,
    QInputMethodEvent,
    QKeyEvent,
    QKeySequence,
    QTextCursor,
    QTextDocument,
)
from PySide6.QtWidgets import QApplication, QFrame, QLayout, QPlainTextEdit, QSizePolicy

from app.design.controls import introduce, restyle
from app.design.drops import has_picture, is_taken, local_files
from app.design.layouts import bare
from app.system.i18n import tr

LONGEST_TEXT = 100_000  # characters
LONGEST_LINE = 5_000
"""Layout of a line is quadratic: one of 5 000 letters that change direction takes 0.1 s, of 20 000 over 1 s."""
MAX_LINES = 5_000
STAYS = (Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason, Qt.FocusReason.MenuBarFocusReason)
"""Reasons for which a field loses the focus and will have it again, with what is being composed."""
PARAGRAPH = "\u2029"
"""The character that Qt puts between the lines of a selection."""
BREAKS = {ord(PARAGRAPH): "\n", 0xFDD0: "\n", 0xFDD1: "\n"}
"""What stands between the lines of a document, and around the cells of its tables."""


def fits(text: str) -> bool:
    """True if a field accepts a text of this length with these lines."""
    if len(text) > LONGEST_TEXT:
        return False
    breaks = sum(map(text.count, "\n\r\u2029"))  # the line breaks that Qt counts
    return breaks < MAX_LINES and max(map(len, text.split("\n"))) <= LONGEST_LINE


def refusal() -> str:
    """Returns the message about a pasted text that does not fit."""
    return tr(
        "What was pasted is too long for this field: it takes {characters} characters, {lines} lines, and {line} "
        "characters in each.",
        characters=f"{LONGEST_TEXT:,}",
        lines=f"{MAX_LINES:,}",
        line=f"{LONGEST_LINE:,}",
    )


def raw_text(document: QTextDocument) -> str:
    """Returns a document's text with its own characters: Qt's plain text has spaces for U+00A0, breaks for U+2028."""
    return document.toRawText().translate(BREAKS)


class PlainText(QPlainTextEdit):
    """Plain text that is read and copied with the characters that it has."""

    def raw(self) -> str:
        return raw_text(self.document())

    def createMimeDataFromSelection(self) -> QMimeData:
        data = QMimeData()
        data.setText(self.textCursor().selectedText().replace(PARAGRAPH, "\n"))
        return data


class TextField(PlainText):
    """A field that accepts only texts that fit, pasted, dropped or set; ``overlong`` emits a text that does not, whole.

    With ``takes_files``, pasted files and pictures are passed on, and dropped ones are left to the parent widget.
    """

    overlong = Signal(str)
    files_pasted = Signal(object)  # tuple[str, ...] of paths
    picture_pasted = Signal(object)  # QImage
    focus_changed = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self.takes_files = False
        self._placeholder = ""

    @property
    def composed(self) -> str:
        """The text that an input method composes at the cursor; it is not part of the field's text yet."""
        return self.textCursor().block().layout().preeditAreaText()

    def commit(self) -> None:
        """Makes what is being composed part of the text."""
        if self.composed:
            QGuiApplication.inputMethod().commit()
        if left := self.composed:  # the input method did not commit it
            event = QInputMethodEvent()
            event.setCommitString(left)
            QApplication.sendEvent(self, event)

    def setPlaceholderText(self, text: str) -> None:
        self._placeholder = text
        self._show_placeholder()

    def _show_placeholder(self) -> None:
        """Hides the placeholder while something is composed: Qt would draw it over the letters."""
        super().setPlaceholderText("" if self.composed else self._placeholder)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        super().inputMethodEvent(event)
        self._show_placeholder()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.InsertLineSeparator) and not self.isReadOnly():
            self.textCursor().insertBlock()  # Qt would put in U+2028
            self.ensureCursorVisible()
        else:
            super().keyPressEvent(event)

    def setPlainText(self, text: str) -> None:
        """Replaces the text; a text that does not fit empties the field."""
        is_short = fits(text)
        super().setPlainText(text if is_short else "")
        self._show_placeholder()
        if not is_short:
            self.overlong.emit(text)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        is_handed_on = self.takes_files and (bool(local_files(source)) or has_picture(source))
        return is_handed_on or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        text = source.text()
        if self.takes_files and (paths := local_files(source)):
            self.files_pasted.emit(paths)
        elif self.takes_files and has_picture(source):
            self.picture_pasted.emit(QImage(source.imageData()))
        elif self._has_room(text):
            super().insertFromMimeData(source)
        else:
            self.overlong.emit(text)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        if event.reason() not in STAYS:
            self.commit()
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if self.takes_files and is_taken(event.mimeData()):
            event.ignore()  # so that the parent widget gets the event
        else:
            super().dragEnterEvent(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        if self.takes_files and is_taken(event.mimeData()):
            event.ignore()
        else:
            super().dragMoveEvent(event)

    def _has_room(self, text: str) -> bool:
        """True if the content fits once ``text`` has replaced the selection."""
        there = self.textCursor()
        before, behind = QTextCursor(self.document()), QTextCursor(self.document())
        before.setPosition(there.selectionStart(), QTextCursor.MoveMode.KeepAnchor)
        behind.setPosition(there.selectionEnd())
        behind.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        around = [part.selectedText().replace(PARAGRAPH, "\n") for part in (before, behind)]
        return fits(text.join(around))


class PromptField(TextField):
    """A prompt field. A subclass sets the number of shown lines in ``sizeHint``."""

    submitted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setTabChangesFocus(True)
        bare(self)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if self._acts_on(event):
            event.accept()
        elif enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.submitted.emit()
            event.accept()
        else:
            super().keyPressEvent(event)

    def _acts_on(self, _event: QKeyEvent) -> bool:
        """Does what a key means in this field beyond writing; False if it means nothing more."""
        return False

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self.sizeHint().height())


def framed(field: TextField, inside: QLayout) -> QFrame:
    """Returns a frame around a field and what belongs to it, which shows that the field has the focus."""
    frame = introduce(QFrame(), role="field")
    frame.setLayout(inside)
    field.focus_changed.connect(partial(restyle, frame, "active"))
    return frame

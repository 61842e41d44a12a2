"""The field a prompt is typed into: as tall as its text, Enter submits, gaps are marked, arrow keys show
earlier prompts.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QFont, QKeyEvent, QSyntaxHighlighter, QTextCharFormat, QTextCursor, QTextDocument

from app.chat.messages.action_row import version_step
from app.design import themes
from app.design.controls import introduce
from app.design.text_field import PromptField, fits
from app.design.tokens import color
from app.system.i18n import tr
from engine.text.outline import spans


class GapMarks(QSyntaxHighlighter):
    """Gives the gaps of a document a ground of their own, in the colours of the theme."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._format = QTextCharFormat()
        self._restyle()
        themes.changed.connect(self._restyle)

    @Slot()
    def _restyle(self) -> None:
        theme = themes.current()
        self._format.setBackground(color(theme.selection))
        self._format.setForeground(color(theme.ink))
        self._format.setFontWeight(QFont.Weight.DemiBold)
        if not self.document().isEmpty():
            self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        if "[[" in text:
            for start, stop in spans(utf16(text)):
                self.setFormat(start, stop - start, self._format)


def utf16(text: str) -> str:
    """Returns a text as one character for each UTF-16 unit, the unit that Qt counts in."""
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(low | high << 8) for low, high in zip(data[::2], data[1::2], strict=True))


MAX_LINES = 9  # as many as a Sudoku has
GAP = "[[…]]"


class PromptHistory:
    """Prompts of this session and of the shown conversation, and the present place in them.

    A walk through them begins at the draft, which is kept until ``leave`` ends it. Prompts too long for the field are
    left out: they can be copied from their turns.
    """

    def __init__(self) -> None:
        self._session: list[str] = []
        self._conversation: list[str] = []
        self._lines: list[str] = []  # the prompts when the walk began, then the draft; empty without a walk
        self._place = 0

    @property
    def prompts(self) -> tuple[str, ...]:
        """The prompts of the session, then those of the conversation, oldest first and each once."""
        latest_first = dict.fromkeys(reversed([*self._session, *self._conversation]))
        return tuple(reversed(latest_first))

    @property
    def place(self) -> tuple[int, int] | None:
        """The number of the shown earlier prompt, counted from 1, and the number of prompts; None at the draft."""
        last = len(self._lines) - 1
        return (self._place + 1, last) if self._place < last else None  # also without a walk

    def set_conversation(self, prompts: Sequence[str]) -> None:
        """Sets the prompts of the shown conversation, oldest first; does not affect a walk that has begun."""
        self._conversation = [prompt for prompt in prompts if prompt.strip() and fits(prompt)]

    def remember(self, prompt: str) -> None:
        """Adds a prompt that was sent as the latest one."""
        if prompt.strip() and fits(prompt):
            self._session.append(prompt)
            self._conversation.append(prompt)

    def leave(self) -> None:
        """Ends the walk; the text in the field is the draft from now on."""
        self._lines = []
        self._place = 0

    def older(self, shown: str) -> str | None:
        """Returns the prompt before the shown one; None at the oldest. ``shown`` is the field's text."""
        return self._step(-1, shown)

    def newer(self, shown: str) -> str | None:
        """Returns the prompt after the shown one, at the end the draft; None after that. ``shown`` as in ``older``."""
        return self._step(1, shown)

    def _step(self, by: int, shown: str) -> str | None:
        if self.place is None:
            self._lines = [*self.prompts, shown]
            self._place = len(self._lines) - 1
        if not 0 <= self._place + by < len(self._lines):
            return None
        self._place += by
        return self._lines[self._place]


class PromptEdit(PromptField):
    """A ``PromptField`` with a history of earlier prompts."""

    walked = Signal()  # another prompt of the history is shown
    stepped = Signal(int)  # by so many versions of the last answer, as keys do that mean nothing in an empty field

    def __init__(self) -> None:
        super().__init__()
        self.takes_files = True
        self.history = PromptHistory()
        self._marks = GapMarks(self.document())
        self.setPlaceholderText(tr("Ask something"))
        introduce(
            self,
            tr("Prompt"),
            tr("Enter sends, Shift+Enter starts a new line, the arrows up and down bring earlier prompts"),
        )
        self.document().documentLayout().documentSizeChanged.connect(self.updateGeometry)

    def set_text(self, text: str) -> None:
        """Puts a text into the field with the cursor behind it, and ends a walk through the history."""
        self.history.leave()
        self.setPlainText(text)
        self.moveCursor(QTextCursor.MoveOperation.End)

    @Slot(str)
    def quote(self, text: str) -> None:
        """Puts a text in front of what is typed, each line after a sign of quotation."""
        lines = "".join(f"> {line}".rstrip() + "\n" for line in text.splitlines())
        cursor = self.textCursor()
        cursor.movePosition(QTextCursor.MoveOperation.Start)
        cursor.insertText(f"{lines}\n")
        self.moveCursor(QTextCursor.MoveOperation.End)
        self.setFocus()

    def insert_gap(self) -> None:
        """Puts a gap in place of what is selected."""
        self.textCursor().insertText(GAP)
        self.setFocus()

    def _acts_on(self, event: QKeyEvent) -> bool:
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier  # macOS sets it for the arrow keys
        document = self.document()
        step = version_step(event, on_text=True) if document.isEmpty() else 0
        edits = document.isUndoAvailable() if step < 0 else document.isRedoAvailable()
        if step and not (modifiers and edits):
            self.stepped.emit(step)
            return True
        return not modifiers and self._walk(event.key())

    def _walk(self, key: int) -> bool:
        """Shows another prompt of the history if the key would leave the field. Returns False if nothing was shown.

        Undo brings the text before back. The cursor is placed so that the same key walks further.
        """
        cursor = self.textCursor()
        if key == Qt.Key.Key_Up and not cursor.movePosition(QTextCursor.MoveOperation.Up):
            text, end = self.history.older(self.raw()), QTextCursor.MoveOperation.Start
        elif key == Qt.Key.Key_Down and not cursor.movePosition(QTextCursor.MoveOperation.Down):
            text, end = self.history.newer(self.raw()), QTextCursor.MoveOperation.End
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
        below = 0 if lines > MAX_LINES else above + margins.bottom() - margins.top() + 2  # no line is cut in half
        return QSize(240, min(lines, MAX_LINES) * self.fontMetrics().lineSpacing() + above + below)

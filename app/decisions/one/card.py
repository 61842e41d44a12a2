"""A card with a question and its answer or, unfolded, the question's fields. Knows no model."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QFrame, QWidget

from app.canvas.answer_bars import ReadBars
from app.decisions import words
from app.decisions.one.editor import QuestionEditor
from app.design.controls import button, label, restyle
from app.design.layouts import boxed, column_of, row_of
from app.state.decisions.drafts import DraftProblem, QuestionDraft
from app.state.run.answers import fact_words
from app.system.i18n import tr
from engine.tasks.decisions.answers import LabelRead, TypedAnswer


class QuestionCard(QFrame):
    """The card of one question. Emits the user's requests; the list passes in number, answer and problem."""

    edit_asked = Signal(bool)  # True to show the fields, False to hide them
    changed = Signal(object)  # the new draft
    remove_asked = Signal()
    pressed = Signal()
    rearranged = Signal()  # its fields were replaced

    def __init__(self, draft: QuestionDraft) -> None:
        super().__init__()
        self.setProperty("role", "question")
        self.draft = draft
        self.answer: TypedAnswer | None = None
        self.editor: QuestionEditor | None = None  # while its fields are shown
        self.number = label("", "caption")
        self.asked = label("", "asked", wrap=True)
        self.kind = label("", "caption")
        self.edit = button(tr("Edit"))
        self.bars = ReadBars(())
        self.facts = label("", "caption", wrap=True)
        self.warning = label("", "remark", wrap=True)
        self.fault = label("", "error", wrap=True)
        self.edit.clicked.connect(functools.partial(self.edit_asked.emit, True))
        self._lay_out()
        self.show_draft(draft)

    def _lay_out(self) -> None:
        top = Qt.AlignmentFlag.AlignTop
        for part, above in ((self.number, 6), (self.asked, 5), (self.kind, 6)):
            part.setContentsMargins(0, above, 0, 0)  # centres them on the button next to them
        parts = ((self.number, 0, top), (self.asked, 1, top), (self.kind, 0, top), (self.edit, 0, top))
        head = row_of(*parts, spacing=8)
        self._folded = boxed(column_of(head, self.bars, self.facts, self.warning, self.fault, spacing=4))
        self._column = column_of(self._folded, margins=(12, 8, 12, 12), spacing=8)
        self.setLayout(self._column)

    def set_number(self, number: int, count: int) -> None:
        """Shows the question's number, from 1, of ``count``."""
        self.number.setText(str(number))
        self.setAccessibleName(tr("Question {number} of {count}", number=number, count=count))
        self.edit.setAccessibleName(tr("Edit question {number}", number=number))

    def show_draft(self, draft: QuestionDraft) -> None:
        """Shows a question, without an answer."""
        self.draft = draft
        self.asked.setText(draft.instructions.strip() or tr("No question yet"))
        self.kind.setText(tr(words.KIND_TITLES[draft.kind]))
        self.bars.show_names(words.option_titles(draft))
        self.show_answer(None, ())

    def show_answer(self, answer: TypedAnswer | None, reads: Sequence[LabelRead]) -> None:
        """Shows an answer: its bars, its facts and a warning; None for no answer."""
        self.answer = answer
        self.bars.show_answer(answer, reads)
        self.facts.setText("" if answer is None else fact_words(answer, reads))
        self.facts.setVisible(answer is not None)
        self.warning.setText("" if answer is None else words.warning(answer))
        self.warning.setVisible(bool(self.warning.text()))

    def show_problem(self, problem: DraftProblem | None) -> None:
        """Shows why the question cannot be asked; None if it can."""
        self.fault.setText("" if problem is None else problem.text)
        self.fault.setVisible(problem is not None)
        if self.editor is not None:
            self.editor.show_problem(problem)

    def set_chosen(self, chosen: bool) -> None:
        """Marks the card, or removes the mark, as the one whose canvas is shown."""
        if bool(self.property("chosen")) != chosen:
            restyle(self, "chosen", chosen)

    def tab_stops(self) -> list[QWidget]:
        """Returns the widgets of the Tab order."""
        return [self.edit] if self.editor is None else self.editor.tab_stops()

    def unfold(self) -> None:
        """Shows the fields."""
        if self.editor is not None:
            return
        self.editor = QuestionEditor(self.draft)
        self.editor.changed.connect(self._take)
        self.editor.rearranged.connect(self.rearranged)
        self.editor.remove.clicked.connect(self.remove_asked)
        self.editor.done.clicked.connect(functools.partial(self.edit_asked.emit, False))
        self._column.addWidget(self.editor)
        self._folded.hide()
        self.editor.show_problem(None)

    def fold(self) -> None:
        """Hides the fields."""
        editor, self.editor = self.editor, None
        if editor is None:
            return
        self._column.removeWidget(editor)
        editor.hide()
        editor.deleteLater()
        self._folded.show()

    @Slot(object)
    def _take(self, draft: QuestionDraft) -> None:
        self.show_draft(draft)
        self.changed.emit(draft)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.pressed.emit()
        super().mousePressEvent(event)

"""A card with a question and its answer or, unfolded, the question's fields. Knows no model."""

from __future__ import annotations

import functools

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from app.decisions import words
from app.decisions.one.bars import AnswerBars
from app.decisions.one.editor import QuestionEditor
from app.design.controls import button, label, restyle
from app.design.icons import set_icon
from app.design.layouts import boxed, column_of, row_of
from app.state.decisions.drafts import DraftProblem, QuestionDraft
from app.system.i18n import tr
from engine.tasks.decisions.answers import TypedAnswer


class QuestionCard(QFrame):
    """The card of one question. Emits the user's requests; the list passes in number, answer and problem."""

    edit_asked = Signal(bool)  # True to show the fields, False to hide them
    changed = Signal(object)  # the new draft
    move_asked = Signal(int)  # by so many places down
    double_asked = Signal()
    remove_asked = Signal()
    pressed = Signal()
    rearranged = Signal()  # its fields were replaced

    def __init__(self, draft: QuestionDraft) -> None:
        super().__init__()
        self.setProperty("role", "question")
        self.draft = draft
        self.editor: QuestionEditor | None = None  # while its fields are shown
        self.number = label("", "caption")
        self.asked = label("", "asked", wrap=True)
        self.kind = label("", "caption")
        self.edit = button(tr("Edit"))
        self.done = button(tr("Done"), tr("Hide the fields"))
        self.tools = [
            self._tool("arrow-up", tr("Move the question up"), functools.partial(self.move_asked.emit, -1)),
            self._tool("arrow-down", tr("Move the question down"), functools.partial(self.move_asked.emit, 1)),
            self._tool("content-copy", tr("Duplicate the question"), self.double_asked.emit),
            self._tool("trash-can-outline", tr("Remove the question"), self.remove_asked.emit),
        ]
        self.bars = AnswerBars(draft)
        self.facts = label("", "caption", wrap=True)
        self.facts.setToolTip(words.facts_meaning())
        self.warning = label("", "remark", wrap=True)
        self.fault = label("", "error", wrap=True)
        self.edit.clicked.connect(functools.partial(self.edit_asked.emit, True))
        self.done.clicked.connect(functools.partial(self.edit_asked.emit, False))
        self._lay_out()
        self.show_draft(draft)

    def _tool(self, icon: str, name: str, act: object) -> QPushButton:
        made = button("", name, role="plain", tip=name)
        made.setProperty("role", "quiet")
        set_icon(made, icon, "faint_ink")
        made.clicked.connect(act)
        return made

    def _lay_out(self) -> None:
        for part, above in ((self.number, 6), (self.asked, 5), (self.kind, 6)):
            part.setContentsMargins(0, above, 0, 0)  # centres them on the button next to them
        head = row_of(
            (self.number, 0, Qt.AlignmentFlag.AlignTop),
            (self.asked, 1, Qt.AlignmentFlag.AlignTop),
            (self.kind, 0, Qt.AlignmentFlag.AlignTop),
            (self.edit, 0, Qt.AlignmentFlag.AlignTop),
            spacing=8,
        )
        self._folded = boxed(column_of(head, self.bars, self.facts, self.warning, self.fault, spacing=4))
        self._column = column_of(self._folded, margins=(12, 8, 12, 12), spacing=8)
        self.setLayout(self._column)

    def set_number(self, number: int, count: int) -> None:
        """Shows the question's number, from 1, of ``count``."""
        self.number.setText(str(number))
        self.setAccessibleName(tr("Question {number} of {count}", number=number, count=count))
        self.tools[0].setEnabled(number > 1)
        self.tools[1].setEnabled(number < count)
        self.edit.setAccessibleName(tr("Edit question {number}", number=number))

    def show_draft(self, draft: QuestionDraft) -> None:
        """Shows a question, without an answer."""
        self.draft = draft
        self.asked.setText(draft.instructions.strip() or tr("No question yet"))
        self.kind.setText(tr(words.KIND_TITLES[draft.kind]))
        self.bars.set_draft(draft)
        self.show_answer(None)

    def show_answer(self, answer: TypedAnswer | None) -> None:
        """Shows an answer: its bars, its facts and a warning; None for no answer."""
        self.bars.set_answer(answer)
        self.facts.setText("" if answer is None else words.facts(answer))
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
        if self.editor is None:
            return [self.edit]
        return [self.editor.kind, self.editor.name, *self.tools, self.done, *self.editor.tab_stops()]

    def unfold(self) -> None:
        """Shows the fields."""
        if self.editor is not None:
            return
        self.editor = QuestionEditor(self.draft)
        self.editor.changed.connect(self._take)
        self.editor.rearranged.connect(self.rearranged)
        for tool in self.tools:
            self.editor.head.addWidget(tool)
            tool.show()
        self.editor.head.addWidget(self.done)
        self.done.show()
        self._column.addWidget(self.editor)
        self._folded.hide()
        self.editor.show_problem(None)

    def fold(self) -> None:
        """Hides the fields."""
        editor, self.editor = self.editor, None
        if editor is None:
            return
        for part in (*self.tools, self.done):
            part.setParent(self)
            part.hide()
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

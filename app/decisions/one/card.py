"""A question with its answer; unfolded, its fields. Knows no model."""

from __future__ import annotations

import functools

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.decisions import words
from app.decisions.one.bars import AnswerBars
from app.decisions.one.editor import QuestionEditor
from app.design.controls import button, label, restyle
from app.design.icons import set_icon
from app.state.decisions.drafts import DraftProblem, QuestionDraft
from app.system.i18n import tr
from engine.tasks.decisions.answers import TypedAnswer


class QuestionCard(QFrame):
    """Emits what is to be done with the question; is told everything else."""

    edit_asked = Signal(bool)  # whether its fields are to be shown
    changed = Signal(object)  # the draft as it is now
    move_asked = Signal(int)  # so many places down
    double_asked = Signal()
    remove_asked = Signal()
    pressed = Signal()
    rearranged = Signal()  # it has other fields

    def __init__(self, draft: QuestionDraft) -> None:
        super().__init__()
        self.setProperty("role", "question")
        self._draft = draft
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
            part.setContentsMargins(0, above, 0, 0)  # one middle with the button beside them
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.number, 0, Qt.AlignmentFlag.AlignTop)
        head.addWidget(self.asked, 1, Qt.AlignmentFlag.AlignTop)
        head.addWidget(self.kind, 0, Qt.AlignmentFlag.AlignTop)
        head.addWidget(self.edit, 0, Qt.AlignmentFlag.AlignTop)
        self._folded = QWidget()
        folded = QVBoxLayout(self._folded)
        folded.setContentsMargins(0, 0, 0, 0)
        folded.setSpacing(4)
        folded.addLayout(head)
        folded.addWidget(self.bars)
        for part in (self.facts, self.warning, self.fault):
            folded.addWidget(part)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(12, 8, 12, 12)
        self._column.setSpacing(8)
        self._column.addWidget(self._folded)

    # ---------------------------------------------------------------- what is shown

    @property
    def draft(self) -> QuestionDraft:
        """The question on show."""
        return self._draft

    def set_number(self, number: int, count: int) -> None:
        """Its place among all, from 1."""
        self.number.setText(str(number))
        self.setAccessibleName(tr("Question {number} of {count}", number=number, count=count))
        self.tools[0].setEnabled(number > 1)
        self.tools[1].setEnabled(number < count)
        self.edit.setAccessibleName(tr("Edit question {number}", number=number))

    def show_draft(self, draft: QuestionDraft) -> None:
        """Show a question, without an answer."""
        self._draft = draft
        self.asked.setText(draft.instructions.strip() or tr("Nothing asked yet"))
        self.kind.setText(tr(words.KIND_TITLES[draft.kind]))
        self.bars.set_draft(draft)
        self.show_answer(None)

    def show_answer(self, answer: TypedAnswer | None) -> None:
        """Fill the bars, and say how sure the answer is."""
        self.bars.set_answer(answer)
        self.facts.setText("" if answer is None else words.facts(answer))
        self.facts.setVisible(answer is not None)
        self.warning.setText("" if answer is None else words.warning(answer))
        self.warning.setVisible(bool(self.warning.text()))

    def show_problem(self, problem: DraftProblem | None) -> None:
        """Say what keeps the question from being asked; None where nothing does."""
        self.fault.setText("" if problem is None else problem.text)
        self.fault.setVisible(problem is not None)
        if self.editor is not None:
            self.editor.show_problem(problem)

    def set_chosen(self, chosen: bool) -> None:
        """Whether its canvas is the one on show."""
        if bool(self.property("chosen")) != chosen:
            restyle(self, "chosen", chosen)

    def tab_stops(self) -> list[QWidget]:
        """What takes the keyboard, in the order of Tab."""
        if self.editor is None:
            return [self.edit]
        return [self.editor.kind, self.editor.name, *self.tools, self.done, *self.editor.tab_stops()]

    # ---------------------------------------------------------------- fields

    def unfold(self) -> None:
        """Show the fields."""
        if self.editor is not None:
            return
        self.editor = QuestionEditor(self._draft)
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
        """Show the question and its answer alone."""
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

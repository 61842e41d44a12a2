"""A card with a question and its answer or, unfolded, the question's fields. Knows no model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLineEdit, QPushButton, QWidget

from app.canvas.answer_bars import ReadBars
from app.design.controls import (
    ChoiceBox,
    button,
    chain_tabs,
    discard,
    focus_in_view,
    introduce,
    label,
    restyle,
    show_line,
)
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.state.decisions.drafts import (
    FEWEST,
    KIND_TITLES,
    KINDS,
    DraftProblem,
    Kind,
    QuestionDraft,
    option_titles,
    warning,
)
from app.state.decisions.reading import DecisionReading
from app.state.run.answers import fact_words
from app.system.i18n import tr
from engine.tasks.decisions.answers import LabelRead, TypedAnswer
from engine.tasks.decisions.questions import MAX_QUESTION_CHARACTERS, Option

LONGEST_NAME = 200  # characters


class QuestionList(QWidget):
    """Holds the questions. ``changed`` is emitted after each edit by the user."""

    changed = Signal()
    chosen = Signal(int)  # index of a question

    def __init__(self) -> None:
        super().__init__()
        self.cards: list[QuestionCard] = []
        self.adders = [button(tr(KIND_TITLES[kind]), role="chip") for kind in KINDS]
        for kind, adder in zip(KINDS, self.adders, strict=True):
            adder.setAccessibleName(tr("Add a question: {kind}", kind=adder.text()))
            adder.clicked.connect(functools.partial(self._add, kind))
        self.teaching = label(
            tr(
                "A question is answered with probabilities: yes or no, one of several options, or a level on a scale. "
                "Add one, or begin with an example."
            ),
            wrap=True,
        )
        self._list = column_of(spacing=0)
        foot = row_of(label(tr("Add"), "caption"), *self.adders, STRETCH, spacing=8)
        parts = (label(tr("Questions"), "section"), self.teaching, self._list, foot, STRETCH)
        self.setLayout(column_of(*parts, margins=(0, 0, 8, 0), spacing=8))

    @property
    def drafts(self) -> tuple[QuestionDraft, ...]:
        return tuple(card.draft for card in self.cards)

    def show_drafts(self, drafts: Sequence[QuestionDraft]) -> None:
        """Shows other questions, all folded."""
        while len(self.cards) > len(drafts):
            discard(self.cards.pop())
        while len(self.cards) < len(drafts):
            self._add_card(drafts[len(self.cards)])
        for place, (card, draft) in enumerate(zip(self.cards, drafts, strict=True)):
            card.fold()
            if card.draft != draft:
                card.show_draft(draft)
            card.show_problem(None)
            card.set_number(place + 1, len(drafts))
        self.teaching.setVisible(not self.cards)
        self.chain()

    def _add_card(self, draft: QuestionDraft) -> None:
        card = QuestionCard(draft)
        for signal, act in (
            (card.edit_asked, self._edit),
            (card.changed, self._note_change),
            (card.remove_asked, self._remove),
            (card.pressed, self._press),
        ):
            signal.connect(functools.partial(act, card))
        card.rearranged.connect(self.chain)
        self.cards.append(card)
        self._list.addWidget(card)

    @Slot()
    def chain(self) -> None:
        """Sets the Tab order. Cards are created after the widgets below them, so Qt's own order is wrong."""
        stops = [stop for card in self.cards for stop in card.tab_stops()]
        if stops:
            chain_tabs(stops[0], (*stops[1:], *self.adders))

    def show_reading(self, reading: DecisionReading | None) -> None:
        """Shows the answers so far; cards that show theirs already are left as they are. None removes them."""
        for place, card in enumerate(self.cards):
            answer = None if reading is None else reading.answers[place]
            if card.answer != answer:
                card.show_answer(answer, () if reading is None else reading.reads[place])

    def find_problems(self) -> bool:
        """Shows each question's problem, unfolds and focuses the first question that has one; False if none has."""
        problems = [card.draft.problem for card in self.cards]
        first = next((place for place, problem in enumerate(problems) if problem is not None), -1)
        if first >= 0:
            self.unfold(first)
        for card, problem in zip(self.cards, problems, strict=True):
            card.show_problem(problem)
        editor = self.cards[first].editor if first >= 0 else None
        if editor is not None:
            editor.focus_on(problems[first])
        return first >= 0

    def unfold(self, place: int) -> None:
        """Unfolds one question, by index, and folds all others; -1 folds all."""
        for other, card in enumerate(self.cards):
            if other == place:
                card.unfold()
            else:
                card.fold()
        self.chain()

    def mark_chosen(self, place: int) -> None:
        """Marks the question whose canvas is shown; -1 for none."""
        for other, card in enumerate(self.cards):
            card.set_chosen(other == place)

    def _add(self, kind: Kind) -> None:
        self._change((*self.drafts, QuestionDraft("choice").as_kind(kind)))
        self._open(len(self.cards) - 1)

    def _open(self, place: int) -> None:
        self.unfold(place)
        editor = self.cards[place].editor
        assert editor is not None
        editor.focus_on(None)

    def _edit(self, card: QuestionCard, shows: bool) -> None:
        if shows:
            self._open(self.cards.index(card))
        else:
            self.unfold(-1)
            card.edit.setFocus()

    def _note_change(self, card: QuestionCard, _draft: QuestionDraft) -> None:
        card.show_problem(None)
        self.changed.emit()

    def _remove(self, card: QuestionCard) -> None:
        place = self.cards.index(card)
        self._change((*self.drafts[:place], *self.drafts[place + 1 :]))
        (self.cards[min(place, len(self.cards) - 1)].edit if self.cards else self.adders[0]).setFocus()

    def _press(self, card: QuestionCard) -> None:
        self.chosen.emit(self.cards.index(card))

    def _change(self, drafts: Sequence[QuestionDraft]) -> None:
        self.show_drafts(drafts)
        self.changed.emit()

    def minimumSizeHint(self) -> QSize:
        return QSize(px(280), super().minimumSizeHint().height())


class QuestionEditor(QWidget):
    """The fields. ``changed`` emits the new draft after each edit."""

    changed = Signal(object)
    rearranged = Signal()  # the option fields were replaced

    def __init__(self, draft: QuestionDraft) -> None:
        super().__init__()
        self.draft = draft
        self.rows: list[QLineEdit] = []
        self._removers: list[QPushButton] = []
        self.kind = introduce(ChoiceBox(), tr("Type of question"))
        for kind in KINDS:
            self.kind.addItem(tr(KIND_TITLES[kind]), kind)
        self.remove = button(tr("Remove"), tr("Remove the question"))
        self.done = button(tr("Done"), tr("Hide the fields"))
        self.instructions = _field(tr("Question"), tr("What is asked about the text?"), MAX_QUESTION_CHARACTERS)
        self.problem = label("", "error", wrap=True)
        self.add_option = button("", clicked=self._add_option)
        self._options = QWidget()
        self._grid = QGridLayout(self._options)
        self._grid.setContentsMargins(0, 0, 0, 0)
        top = row_of(self.kind, STRETCH, self.remove, self.done, spacing=8)
        self.setLayout(column_of(top, self.instructions, self._options, self.add_option, self.problem, spacing=8))
        self.kind.setCurrentIndex(KINDS.index(draft.kind))
        self.instructions.setText(draft.instructions)
        self._show_options()
        self.kind.activated.connect(self._choose_kind)
        self.instructions.textEdited.connect(self._type)

    def tab_stops(self) -> list[QWidget]:
        options = (part for pair in zip(self.rows, self._removers, strict=True) for part in pair)
        return [self.kind, self.remove, self.done, self.instructions, *options, self.add_option]

    def _show_options(self) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            old = item.widget()
            if old is not None:
                discard(old)
        self.rows, self._removers = [], []
        is_fixed, is_score = self.draft.kind == "yes-no", self.draft.kind == "score"
        for place, option in enumerate(() if is_fixed else self.draft.options):
            title = tr("Level {mark}", mark=place) if is_score else tr("Option {mark}", mark=place + 1)
            name, remove = _field(title, title, LONGEST_NAME), button("✕", tr("Remove {option}", option=title))
            name.setText(option.name)
            name.textEdited.connect(self._type)
            remove.setEnabled(len(self.draft.options) > FEWEST)
            remove.clicked.connect(functools.partial(self._remove_option, place))
            self._grid.addWidget(name, place, 0)
            self._grid.addWidget(remove, place, 1)
            self.rows.append(name)
            self._removers.append(remove)
        self.add_option.setVisible(not is_fixed)
        self.add_option.setText(tr("Add a level") if is_score else tr("Add an option"))
        self.add_option.setEnabled(self.draft.has_room)
        self.rearranged.emit()

    def show_problem(self, problem: DraftProblem | None) -> None:
        """Marks the field with the problem, and shows its text; None removes both."""
        show_line(self.problem, "" if problem is None else problem.text)
        wrong = None if problem is None else self._field_of(problem)
        for field in (self.instructions, *self.rows):
            if bool(field.property("wrong")) != (field is wrong):
                restyle(field, "wrong", field is wrong)
            field.setAccessibleDescription(self.problem.text() if field is wrong else "")

    def _field_of(self, problem: DraftProblem) -> QLineEdit:
        return self.instructions if problem.place < 0 else self.rows[problem.place]

    def focus_on(self, problem: DraftProblem | None) -> None:
        """Moves the focus to the field with the problem; None to the first field."""
        focus_in_view(self.instructions if problem is None else self._field_of(problem))

    @Slot()
    def _type(self) -> None:
        pairs = zip(self.draft.options, self.rows, strict=False)
        options = tuple(replace(own, name=name.text()) for own, name in pairs) or self.draft.options
        self._change(replace(self.draft, instructions=self.instructions.text(), options=options))

    @Slot(int)
    def _choose_kind(self, index: int) -> None:
        self._change(self.draft.as_kind(KINDS[index]))
        self._show_options()

    @Slot()
    def _add_option(self) -> None:
        self._change(replace(self.draft, options=(*self.draft.options, Option(""))))
        self._show_options()
        focus_in_view(self.rows[-1])

    def _remove_option(self, place: int) -> None:
        options = self.draft.options
        self._change(replace(self.draft, options=(*options[:place], *options[place + 1 :])))
        self._show_options()
        self.rows[min(place, len(self.rows) - 1)].setFocus()

    def _change(self, draft: QuestionDraft) -> None:
        if draft != self.draft:
            self.draft = draft
            self.changed.emit(draft)


def _field(name: str, hint: str, longest: int) -> QLineEdit:
    return introduce(QLineEdit(placeholderText=hint, maxLength=longest), name)


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
        self.edit = button(tr("Edit"), clicked=functools.partial(self.edit_asked.emit, True))
        self.bars = ReadBars(())
        self.facts = label("", "caption", wrap=True)
        self.warning = label("", "remark", wrap=True)
        self.fault = label("", "error", wrap=True)
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
        self.kind.setText(tr(KIND_TITLES[draft.kind]))
        self.bars.show_names(option_titles(draft))
        self.show_answer(None, ())

    def show_answer(self, answer: TypedAnswer | None, reads: Sequence[LabelRead]) -> None:
        """Shows an answer: its bars, its facts and a warning; None for no answer."""
        self.answer = answer
        self.bars.show_answer(answer, reads)
        show_line(self.facts, "" if answer is None else fact_words(answer, reads))
        show_line(self.warning, "" if answer is None else warning(answer))

    def show_problem(self, problem: DraftProblem | None) -> None:
        """Shows why the question cannot be asked; None if it can."""
        show_line(self.fault, "" if problem is None else problem.text)
        if self.editor is not None:
            self.editor.show_problem(problem)

    def set_chosen(self, chosen: bool) -> None:
        """Marks the card, or removes the mark, as the one whose canvas is shown."""
        if bool(self.property("chosen")) != chosen:
            restyle(self, "chosen", chosen)

    def tab_stops(self) -> list[QWidget]:
        return [self.edit] if self.editor is None else self.editor.tab_stops()

    def unfold(self) -> None:
        if self.editor is not None:
            return
        self.editor = QuestionEditor(self.draft)
        self.editor.changed.connect(self._apply)
        self.editor.rearranged.connect(self.rearranged)
        self.editor.remove.clicked.connect(self.remove_asked)
        self.editor.done.clicked.connect(functools.partial(self.edit_asked.emit, False))
        self._column.addWidget(self.editor)
        self._folded.hide()
        self.editor.show_problem(None)

    def fold(self) -> None:
        editor, self.editor = self.editor, None
        if editor is None:
            return
        discard(editor)
        self._folded.show()

    @Slot(object)
    def _apply(self, draft: QuestionDraft) -> None:
        self.show_draft(draft)
        self.changed.emit(draft)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.pressed.emit()
        super().mousePressEvent(event)

"""The list of questions as cards; at most one is unfolded. Knows no model."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from PySide6.QtCore import QSize, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.decisions import words
from app.decisions.one.card import QuestionCard
from app.design.controls import button, chain_tabs, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.state.decisions.drafts import KINDS, DraftProblem, QuestionDraft
from app.state.decisions.sheet import QuestionSheet
from app.system.i18n import tr
from engine.tasks.decisions.answers import TypedAnswer


class QuestionList(QWidget):
    """Holds the sheet of questions. ``changed`` is emitted after each edit by the user."""

    changed = Signal()
    chosen = Signal(int)  # index of a question

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.sheet = QuestionSheet()
        self.cards: list[QuestionCard] = []
        self.open = button(tr("Open…"), tr("Open questions from a file"))
        self.save = button(tr("Save…"), tr("Save the questions as a file"))
        self.adders = [button(tr(words.KIND_TITLES[kind]), role="chip") for kind in KINDS]
        for kind, adder in zip(KINDS, self.adders, strict=True):
            adder.setAccessibleName(tr("Add a question: {kind}", kind=adder.text()))
            adder.clicked.connect(functools.partial(self.add, kind))
        head = row_of(label(tr("Questions"), "section"), STRETCH, self.open, self.save, spacing=16)
        self.teaching = label(
            tr(
                "A question is answered with probabilities: yes or no, one of several options, or a level on a scale. "
                "Add one, or begin with an example."
            ),
            wrap=True,
        )
        self._list = column_of(spacing=0)
        foot = row_of(label(tr("Add"), "caption"), *self.adders, STRETCH, spacing=8)
        self.setLayout(column_of(head, self.teaching, self._list, foot, STRETCH, margins=(0, 0, 8, 0), spacing=8))

    def show_sheet(self, sheet: QuestionSheet) -> None:
        """Shows other questions, all folded."""
        self.sheet = sheet
        while len(self.cards) > len(sheet):
            card = self.cards.pop()
            self._list.removeWidget(card)
            card.hide()
            card.deleteLater()
        while len(self.cards) < len(sheet):
            self._add_card(sheet.questions[len(self.cards)])
        for place, (card, draft) in enumerate(zip(self.cards, sheet.questions, strict=True)):
            card.fold()
            if card.draft != draft:
                card.show_draft(draft)
            card.show_problem(None)
            card.set_number(place + 1, len(sheet))
        self.teaching.setVisible(not self.cards)
        self.save.setEnabled(bool(self.cards))
        for adder in self.adders:
            adder.setEnabled(sheet.has_room)
        self.chain()

    def _add_card(self, draft: QuestionDraft) -> None:
        card = QuestionCard(draft)
        for signal, act in (
            (card.edit_asked, self._edit),
            (card.changed, self._take),
            (card.move_asked, self._move),
            (card.double_asked, self._double),
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
        chain_tabs(self.open, (self.save, *stops, *self.adders))

    def show_answers(self, answers: Sequence[TypedAnswer | None]) -> None:
        """Shows the answers, by question; cards that show theirs already are left as they are."""
        for card, answer in zip(self.cards, answers, strict=False):
            if card.bars.answer != answer:
                card.show_answer(answer)

    def forget_answers(self) -> None:
        """Removes all answers."""
        self.show_answers([None] * len(self.cards))

    def show_problems(self, problems: Mapping[int, DraftProblem]) -> None:
        """Shows each question's problem, and unfolds and focuses the first question that has one."""
        first = min(problems, default=-1)
        if first >= 0:
            self.unfold(first)
        for place, card in enumerate(self.cards):
            card.show_problem(problems.get(place))
        editor = self.cards[first].editor if first >= 0 else None
        if editor is not None:
            editor.focus_on(problems[first])

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

    def add(self, kind: str) -> None:
        """Adds a question, unfolded."""
        self._change(self.sheet.plus(next(one for one in KINDS if one == kind)))
        self._open(len(self.cards) - 1)

    def _open(self, place: int) -> None:
        self.unfold(place)
        editor = self.cards[place].editor
        if editor is not None:
            editor.focus_on(None)

    def _edit(self, card: QuestionCard, shows: bool) -> None:
        place = self.cards.index(card)
        if shows:
            self._open(place)
        else:
            self.unfold(-1)
            card.edit.setFocus()

    def _take(self, card: QuestionCard, draft: QuestionDraft) -> None:
        self.sheet = self.sheet.changed(self.cards.index(card), draft)
        card.show_problem(None)
        self.changed.emit()

    def _move(self, card: QuestionCard, by: int) -> None:
        place = self.cards.index(card)
        target = min(max(place + by, 0), len(self.cards) - 1)
        self._change(self.sheet.moved(place, by))
        self._open(target)

    def _double(self, card: QuestionCard) -> None:
        place = self.cards.index(card)
        before = len(self.sheet)
        self._change(self.sheet.doubled(place))
        self._open(place + len(self.sheet) - before)

    def _remove(self, card: QuestionCard) -> None:
        place = self.cards.index(card)
        self._change(self.sheet.minus(place))
        (self.cards[min(place, len(self.cards) - 1)].edit if self.cards else self.adders[0]).setFocus()

    def _press(self, card: QuestionCard) -> None:
        self.chosen.emit(self.cards.index(card))

    def _change(self, sheet: QuestionSheet) -> None:
        self.show_sheet(sheet)
        self.changed.emit()

    def minimumSizeHint(self) -> QSize:
        return QSize(px(280), super().minimumSizeHint().height())

"""The list of questions as cards; at most one is unfolded. Knows no model."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from PySide6.QtCore import QSize, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.decisions import words
from app.decisions.one.card import QuestionCard
from app.design.controls import button, chain_tabs, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.state.decisions.drafts import KINDS, Kind, QuestionDraft
from app.state.decisions.reading import DecisionReading
from app.system.i18n import tr


class QuestionList(QWidget):
    """Holds the questions. ``changed`` is emitted after each edit by the user."""

    changed = Signal()
    chosen = Signal(int)  # index of a question

    def __init__(self) -> None:
        super().__init__()
        self.cards: list[QuestionCard] = []
        self.adders = [button(tr(words.KIND_TITLES[kind]), role="chip") for kind in KINDS]
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
        """The questions."""
        return tuple(card.draft for card in self.cards)

    def show_drafts(self, drafts: Sequence[QuestionDraft]) -> None:
        """Shows other questions, all folded."""
        while len(self.cards) > len(drafts):
            card = self.cards.pop()
            self._list.removeWidget(card)
            card.hide()
            card.deleteLater()
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
            (card.changed, self._take),
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

    def _take(self, card: QuestionCard, _draft: QuestionDraft) -> None:
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

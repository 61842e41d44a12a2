"""The answers to a decision's questions after the reads up to the current one. Follows the player."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, Signal, Slot
from PySide6.QtGui import QEnterEvent, QMouseEvent
from PySide6.QtWidgets import QFrame, QWidget

from app.canvas.answer_bars import ReadBars
from app.design.controls import discard, introduce, label, restyle
from app.design.layouts import column_of
from app.design.tokens import SPACE_1, SPACE_2, SPACE_3, SPACE_4
from app.player.player import NOTHING, Player
from app.state.run.answers import answer_words, answers_of, fact_words, label_reads
from app.system.i18n import tr, trn
from engine.tasks.decisions.answers import LabelRead, TypedAnswer
from engine.tasks.decisions.questions import Question, YesNo
from engine.tasks.decisions.wording import Labels


class ReadAnswer(QFrame):
    """A question with its answer, highlighted while its slot is hovered. A press selects the slot."""

    pointed = Signal(bool)
    pressed = Signal()

    def __init__(self, number: int, question: Question) -> None:
        super().__init__()
        labels = Labels().of_question(question)  # not shown for yes and no: the names suffice
        pairs = zip(labels, (option.name for option in question.options), strict=True)
        names = [name if isinstance(question, YesNo) else f"{sign}  {name}" for sign, name in pairs]
        self.title = label(question.instructions, "setting", wrap=True, selectable=True)
        self.said = label("", "figure", wrap=True, selectable=True)
        self.bars = ReadBars(names)
        self.facts = label("", "caption", wrap=True, selectable=True)
        self._name = tr("Question {number}", number=number)
        if question.name:
            self._name = tr("{question}, {name}", question=self._name, name=question.name)
        introduce(self, self._name, role="read-answer")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setLayout(
            column_of(
                label(self._name, "caption", wrap=True),
                self.title,
                self.said,
                self.bars,
                self.facts,
                margins=(SPACE_3, SPACE_2, SPACE_3, SPACE_3),
                spacing=SPACE_1,
            )
        )
        self.show_reads(None, ())

    def set_lit(self, lit: bool) -> None:
        """Highlights the question if its slot is hovered or selected."""
        if bool(self.property("lit")) != lit:
            restyle(self, "lit", lit)

    def show_reads(self, answer: TypedAnswer | None, reads: Sequence[LabelRead]) -> None:
        """Shows the answer after the reads so far; None before the first."""
        self.bars.show_answer(answer, reads)
        self.said.setText(tr("Not read yet") if answer is None else answer_words(answer))
        self.facts.setText("" if answer is None else fact_words(answer, reads))
        self.facts.setVisible(answer is not None)
        self.setAccessibleDescription(" ".join(filter(None, (self.said.text(), self.facts.text()))))

    def enterEvent(self, _event: QEnterEvent) -> None:
        self.pointed.emit(True)

    def leaveEvent(self, _event: QEvent) -> None:
        self.pointed.emit(False)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.pressed.emit()
        else:
            super().mousePressEvent(event)


class ReadAnswers(QWidget):
    """One row for each question, in the order of the slots. Hovering over a row highlights its slot on the canvas."""

    lit = Signal(QWidget)  # a row that was highlighted from elsewhere

    def __init__(self, player: Player) -> None:
        super().__init__(accessibleName=tr("Answers"))
        self._player = player
        self.rows: list[ReadAnswer] = []
        self.summary = label("", "caption", wrap=True, selectable=True)
        self._column = column_of(margins=(SPACE_4, 0, SPACE_4, SPACE_4), spacing=SPACE_2)
        top = column_of(self.summary, margins=(SPACE_4, SPACE_2, SPACE_4, SPACE_2))
        self.setLayout(column_of(top, self._column, spacing=0))
        player.opened.connect(self._open)
        player.grown.connect(self._show)
        player.placed.connect(self._show)
        player.selected.connect(self._light)
        player.hovered.connect(self._light)

    @Slot()
    def _open(self) -> None:
        for row in self.rows:
            discard(row)
        self.rows = []
        trace = self._player.trace
        decision = None if trace is None else trace.header.decision
        if trace is None or decision is None:
            return
        slots = trace.header.slots
        for place, question in enumerate(decision.questions):
            row = ReadAnswer(decision.first + place, question)
            if slots:
                row.pointed.connect(functools.partial(self._point, slots[place].position))
                row.pressed.connect(functools.partial(self._player.select, slots[place].position))
            self._column.insertWidget(place, row)
            self.rows.append(row)

    @Slot()
    def _show(self, _place: int = 0) -> None:
        trace, replay = self._player.trace, self._player.replay
        if trace is None or replay is None or trace.header.decision is None:
            return
        reads = replay.reads(self._player.place)
        answers = answers_of(trace.header.decision, reads)
        by_read = [label_reads(read) for read in reads]
        for place, row in enumerate(self.rows):
            row.show_reads(answers[place] if answers else None, [read[place] for read in by_read])
        self.summary.setText(self._words(len(reads), len(replay.reads())))

    def _words(self, shown: int, all_reads: int) -> str:
        trace = self._player.trace
        assert trace is not None
        if not trace.header.slots and all_reads:
            return tr("The server that decided this sent only the probabilities: there is no canvas to look at.")
        if not shown:
            return tr("Before the first read: random tokens in the answer slots, which are framed on the canvas.")
        if all_reads == 1:
            return tr("One read: one denoising step over the canvas. Nothing of it is kept as text.")
        return trn(
            "After {count} of {reads} reads, each with fresh noise: the mean, and a tick for each read.",
            "After {count} of {reads} reads, each with fresh noise: the mean, and a tick for each read.",
            shown,
            reads=all_reads,
        )

    def _point(self, position: int, inside: bool) -> None:
        self._player.point(position if inside else NOTHING)

    @Slot(int)
    def _light(self, _position: int) -> None:
        trace = self._player.trace
        slots = () if trace is None else trace.header.slots
        for row, slot in zip(self.rows, slots, strict=False):
            row.set_lit(slot.position in (self._player.hover, self._player.selection))
        lit = next((row for row in self.rows if row.property("lit")), None)
        if lit is not None and not lit.underMouse():
            self.lit.emit(lit)

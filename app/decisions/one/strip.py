"""The canvas that answers were read from. Knows no model."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QStackedWidget, QWidget

from app.canvas.view import CanvasView
from app.design.controls import Elided, button, label, scroller
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.state.decisions.reading import DecisionProgress, DecisionReading
from app.system.i18n import tr, trn

LEAST, MOST = 72, 176  # bounds of a canvas's height in pixels at 100 %
HEAD = 40


class CanvasStrip(QWidget):
    """Shows the latest canvas of a reading, or of the question that the user chose."""

    inspect_asked = Signal(object)  # a Recording and the index of the read
    question_chosen = Signal(int)  # index of a question

    def __init__(self) -> None:
        super().__init__()
        self._reading: DecisionReading | None = None
        self._question = -1
        self._most = MOST
        self.facts = Elided("caption")
        self.inspect = button(tr("Open in the inspector"), clicked=self._inspect)
        self.canvas = CanvasView()
        self.canvas.set_legend(False)
        self.canvas.setAccessibleName(tr("Canvas with slots"))
        self.slots: dict[int, int] = {}  # question numbers, from 1, by the position of their slot
        self.teaching = label("", "caption", wrap=True)
        self._area = scroller(self.canvas)
        self._pages = QStackedWidget()
        nothing = boxed(column_of(self.teaching, STRETCH, margins=(0, 8, 0, 0)))
        self.teaching.setMaximumWidth(px(640))
        for page in (nothing, self._area):
            self._pages.addWidget(page)
        head = row_of(label(tr("Canvas"), "section"), (self.facts, 1), self.inspect, spacing=16)
        self.setLayout(column_of(head, (self._pages, 1), spacing=8))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.canvas.cellSelected.connect(self._choose_slot)
        self.show_reading(None)

    def show_reading(self, reading: DecisionReading | None) -> None:
        """Shows another reading from its beginning; None for none."""
        self._reading, self._question = reading, -1
        self.refresh()

    def choose_question(self, question: int) -> None:
        """Shows the canvas of a question, and selects its slot."""
        self._question = question
        self.refresh()

    @property
    def run(self) -> DecisionProgress | None:
        """The run whose canvas is shown; None if there is none."""
        reading = self._reading
        chosen = None if reading is None else reading.run_of(self._question)
        runs = () if reading is None else reversed(reading.runs)
        return next((run for run in (chosen, *runs) if run is not None and run.canvas.blocks), None)

    @Slot()
    def refresh(self) -> None:
        """Shows what was added to the reading since the last call."""
        run = self.run
        self.inspect.setVisible(run is not None)
        self._pages.setCurrentIndex(0 if run is None else 1)
        if run is None:
            self.facts.set_whole("")
            self.slots = {}
            self.canvas.set_block(None)
            self.teaching.setText(_teaching(self._reading))
            self._fit()
            return
        block = run.canvas.blocks[-1]
        if run.trace is not None:
            self.canvas.set_piece(run.trace.piece, run.trace.is_special)
        self.slots = {slot.position: run.first + number for number, slot in enumerate(run.slots, start=1)}
        self.canvas.frame_slots(tuple(self.slots), run.first + 1)
        self.canvas.set_block(block)
        chosen = next((place for place, number in self.slots.items() if number == self._question + 1), -1)
        if chosen >= 0:
            self.canvas.selected = chosen
        self._fit()
        self.facts.set_whole(
            tr(
                "{tokens}, 1 step, {seconds} ms · framed: slots",
                tokens=trn("{count} token", "{count} tokens", block.length),
                seconds=f"{1000 * block.seconds:.1f}",
            )
        )

    def set_most(self, pixels: int) -> None:
        """Sets the greatest height of a canvas; a higher one scrolls."""
        self._most = min(pixels, px(MOST))
        self._fit()

    def _fit(self) -> None:
        """Sets the height that the canvas needs, within bounds."""
        needed = 0 if self.canvas.block is None else self.canvas.heightForWidth(max(1, self._area.viewport().width()))
        self.setFixedHeight(px(HEAD) + min(max(needed, px(LEAST)), max(self._most, px(LEAST))))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    @Slot(int)
    def _choose_slot(self, position: int) -> None:
        number = self.slots.get(position)
        if number is not None:
            self.question_chosen.emit(number - 1)

    @Slot()
    def _inspect(self) -> None:
        run = self.run
        if run is not None and run.trace is not None:
            self.inspect_asked.emit((run.trace, len(run.canvas.blocks) - 1))


def _teaching(reading: DecisionReading | None) -> str:
    if reading is not None and reading.is_over and any(run.reads for run in reading.runs):
        return tr("This model is on another machine and sends probabilities only, so there is no canvas to show.")
    return tr(
        "The questions are fixed; only the answer slots are blank. One step fills them, and the bars show how likely "
        "each option is."
    )

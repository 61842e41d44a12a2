"""The canvases that the answers were read from, one for each read. Knows no model."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QStackedWidget, QWidget

from app.canvas.view import CanvasView
from app.design.choice_box import ChoiceBox
from app.design.controls import Elided, button, label, scroller
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.state.decisions.reading import CanvasPlace, DecisionReading, DecisionRun
from app.system.i18n import tr, trn

LEAST, MOST = 72, 176  # bounds of a canvas's height in pixels at 100 %
HEAD = 40


class CanvasStrip(QWidget):
    """Shows the canvases of a reading: the newest, until the user chooses another."""

    inspect_asked = Signal(object)  # a Recording and the index of the read
    question_chosen = Signal(int)  # index of a question

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reading: DecisionReading | None = None
        self._places: list[CanvasPlace] = []
        self._question = -1
        self._is_following = True
        self._most = MOST
        self.picker = ChoiceBox()
        self.picker.setAccessibleName(tr("Which canvas"))
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
        head = row_of(label(tr("Canvas"), "section"), self.picker, (self.facts, 1), self.inspect, spacing=16)
        self.setLayout(column_of(head, (self._pages, 1), spacing=8))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.picker.activated.connect(self._pick)
        self.canvas.cellSelected.connect(self._choose_slot)
        self.show_reading(None)

    def show_reading(self, reading: DecisionReading | None) -> None:
        """Shows another reading from its beginning; None for none."""
        self._reading, self._places, self._question, self._is_following = reading, [], -1, True
        self.picker.clear()
        self.refresh()

    @property
    def place(self) -> CanvasPlace | None:
        """The shown canvas; None if there is none."""
        index = self.picker.currentIndex()
        return self._places[index] if 0 <= index < len(self._places) else None

    def refresh(self) -> None:
        """Shows what was added to the reading since the last call."""
        reading = self._reading
        places = [] if reading is None else reading.canvases
        if places != self._places and reading is not None:
            now = self.place
            self._places = places
            self.picker.clear()
            for place in places:
                self.picker.addItem(_title(reading.runs[place.run], place, len(reading.runs) > 1))
            self.picker.setCurrentIndex(len(places) - 1 if self._is_following or now is None else places.index(now))
        self.picker.setVisible(len(places) > 1)
        self._show()

    def choose_question(self, question: int) -> None:
        """Shows the canvas of a question's first read, and selects its slot."""
        if self._reading is None or not 0 <= question < self._reading.count:
            return
        self._question = question
        run, _ = self._reading.run_of(question)
        now = self.place
        if now is None or now.run != run:
            index = next((index for index, place in enumerate(self._places) if place.run == run), -1)
            if index >= 0:
                self.picker.setCurrentIndex(index)
                self._is_following = False
        self._show()

    def _show(self) -> None:
        place, reading = self.place, self._reading
        self.inspect.setVisible(place is not None)
        self._pages.setCurrentIndex(0 if place is None else 1)
        if place is None or reading is None:
            self.facts.set_whole("")
            self.slots = {}
            self.canvas.set_block(None)
            self.teaching.setText(_teaching(reading))
            self._fit()
            return
        run = reading.runs[place.run]
        block = reading.block(place)
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
    def _pick(self, _index: int) -> None:
        self._is_following = False
        self._show()

    @Slot(int)
    def _choose_slot(self, position: int) -> None:
        number = self.slots.get(position)
        if number is not None:
            self.question_chosen.emit(number - 1)

    @Slot()
    def _inspect(self) -> None:
        place, reading = self.place, self._reading
        if place is not None and reading is not None and reading.runs[place.run].trace is not None:
            self.inspect_asked.emit((reading.runs[place.run].trace, place.read))


def _title(run: DecisionRun, place: CanvasPlace, has_others: bool) -> str:
    """Returns the title of a canvas in the picker."""
    first, last = run.first + 1, run.first + len(run.questions)
    asked = (
        tr("Question {number}", number=first)
        if first == last
        else tr("Questions {first}–{last}", first=first, last=last)
    )
    read = tr("read {number}", number=place.read + 1)
    return tr("{questions}, {read}", questions=asked, read=read) if has_others else read[:1].upper() + read[1:]


def _teaching(reading: DecisionReading | None) -> str:
    if reading is not None and reading.is_over and not reading.canvases and any(run.reads for run in reading.runs):
        return tr("This model is on another machine and sends probabilities only, so there is no canvas to show.")
    return tr(
        "The questions are fixed; only the answer slots are blank. One step fills them, and the bars show how likely "
        "each option is."
    )

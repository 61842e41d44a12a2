"""The Decisions page: one text on the left, its questions and answers on the right, the canvas below. No model."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import QBoxLayout, QCheckBox, QSizePolicy, QStackedWidget, QWidget

from app.canvas.view import CanvasView
from app.decisions.questions import QuestionList
from app.design.controls import (
    ChoiceBox,
    Elided,
    FocusGroup,
    Hairline,
    button,
    chain_tabs,
    introduce,
    label,
    scroller,
    show_line,
)
from app.design.fonts import px
from app.design.layouts import STRETCH, UNLIMITED, boxed, column_of, row_of
from app.design.text_field import TextField, refusal
from app.state.decisions.reading import DecisionProgress, DecisionReading
from app.system.i18n import tr, trn

LEAST_STATE = 136  # pixels at 100 %
LEAST_HEIGHT, MAX_HEIGHT = 72, 176  # of a canvas, in pixels at 100 %
HEAD = 40
LEFT, TIGHT_LEFT = 320, 256  # pixels at 100 %
TIGHT, NARROW = 760, 600  # pixels at 100 %; below the second everything is in one column
MAX_CANVAS = 0.24  # share of the height
LEAST_COLUMN = 360


class StateColumn(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.examples = introduce(ChoiceBox(), tr("Examples"))
        self.examples.setPlaceholderText(tr("Examples"))
        self.examples.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.examples.setMinimumContentsLength(10)
        self.state = introduce(TextField(), tr("Text"))
        self.state.setPlaceholderText(tr("The text that the questions are about: a message, a report, facts."))
        self.state.setTabChangesFocus(True)
        self.state.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)  # fills the column
        self.state.setMinimumHeight(px(LEAST_STATE))
        self.problem = label("", "error", wrap=True)
        self.problem.hide()
        self.joint = introduce(
            QCheckBox(tr("Ask all questions in one canvas")),
            tip=tr("One step answers all of them, each in its own slot. Unticked, each question has its own canvas."),
        )
        head = row_of(label(tr("Text"), "section"), STRETCH, self.examples, spacing=8)
        self.setLayout(column_of(head, (self.state, 1), self.problem, self.joint, spacing=8))
        self.state.textChanged.connect(lambda: show_line(self.problem, ""))
        self.state.overlong.connect(lambda _text: show_line(self.problem, refusal()))

    def offer(self, titles: Sequence[str]) -> None:
        self.examples.addItems(list(titles))
        self.examples.setCurrentIndex(-1)


class CanvasStrip(QWidget):
    """Shows the latest canvas of a reading, or of the question that the user chose."""

    inspect_asked = Signal(object)  # a Recording and the index of the read
    question_chosen = Signal(int)  # index of a question

    def __init__(self) -> None:
        super().__init__()
        self._reading: DecisionReading | None = None
        self._question = -1
        self._most = MAX_HEIGHT
        self.facts = Elided("caption")
        self.inspect = button(tr("Open in the inspector"), clicked=self._inspect)
        self.canvas = introduce(CanvasView(), tr("Canvas with slots"))
        self.canvas.set_legend(False)
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
        self._most = min(pixels, px(MAX_HEIGHT))
        self._fit()

    def _fit(self) -> None:
        """Sets the height that the canvas needs, within bounds."""
        needed = 0 if self.canvas.block is None else self.canvas.heightForWidth(max(1, self._area.viewport().width()))
        self.setFixedHeight(px(HEAD) + min(max(needed, px(LEAST_HEIGHT)), max(self._most, px(LEAST_HEIGHT))))

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


class DecisionsPage(QWidget):
    """Lays out its parts, and shows a reading."""

    go_asked = Signal()  # by Ctrl+Return

    def __init__(self) -> None:
        super().__init__()
        introduce(self, tr("Decisions"), id="decisions")
        self._reading: DecisionReading | None = None
        self.column = StateColumn()
        self.questions = QuestionList()
        self.strip = CanvasStrip()
        self.decide = button(tr("Decide"), role="primary", tip=tr("Ask the model (Ctrl+Return)"))
        self.stop = button(tr("Stop"), role="plain")
        self.load = button(tr("Load the small models"), role="plain")
        self.message = label("", "caption", wrap=True)
        self.fault = label("", "error", wrap=True)
        self._buttons = FocusGroup(self.decide, self.stop, self.load)
        self._lay_out()
        for key in ("Ctrl+Return", "Ctrl+Enter"):
            shortcut = QShortcut(QKeySequence(key), self, context=Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(self.go_asked)
        self.questions.chosen.connect(self.choose)
        self.strip.question_chosen.connect(self.choose)

    def _lay_out(self) -> None:
        self._left = boxed(column_of((self.column, 1)))
        self._right = scroller(self.questions)
        self.questions.installEventFilter(self)
        self._row = row_of(self._left, (self._right, 1), margins=(16, 16, 8, 8), spacing=24)
        buttons = boxed(row_of(self.decide, self.stop, self.load, STRETCH, spacing=8))
        said = boxed(column_of(STRETCH, self.message, self.fault, STRETCH, spacing=4))
        # The buttons are at the lower edge of the page, so that neither a message nor a canvas moves them.
        corner = Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeft
        self._foot = row_of((buttons, 0, corner), (said, 1), spacing=16)
        self._lower = column_of(self.strip, self._foot, margins=(16, 8, 16, 12), spacing=8)
        self._area = scroller(boxed(self._row))
        purpose = tr("Ask questions about a text, and see how likely each answer is: yes or no, options, or a scale.")
        head = column_of(label(purpose, "caption", wrap=True), margins=(16, 8, 16, 0))
        self.setLayout(column_of(head, (self._area, 1), Hairline(), boxed(self._lower), spacing=0))
        chain_tabs(self.column.joint, (self.decide, self.stop, self.load, *self.questions.adders))
        chain_tabs(self.questions.adders[-1], (self.strip.inspect, self.strip.canvas))
        self._arrange()

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)

    def show_reading(self, reading: DecisionReading | None) -> None:
        """Shows another reading, from its beginning; None for none."""
        if reading is None and self._reading is None:
            return
        self._reading = reading
        self.questions.mark_chosen(-1)
        self.strip.show_reading(reading)
        self.questions.show_reading(reading)
        if reading is not None:
            self.questions.unfold(-1)
            self._area.verticalScrollBar().setValue(self._right.y())  # to the questions, in the narrow layout

    @Slot()
    def refresh(self) -> None:
        """Shows the answers that were added to the reading."""
        self.questions.show_reading(self._reading)
        self.strip.refresh()

    @Slot(int)
    def choose(self, question: int) -> None:
        if self._reading is not None:
            self.questions.mark_chosen(question)
            self.strip.choose_question(question)

    def show_doing(self, *, is_busy: bool, message: str, fault: str, can_decide: bool, offers: bool) -> None:
        """Shows the state of the page.

        Args:
            is_busy: A decision is running.
            message: What the user waits for, or should know.
            fault: Why the last decision failed.
            offers: The small models can be loaded.
        """
        with self._buttons:
            self.stop.setVisible(is_busy)
            self.decide.setVisible(not is_busy)
            self.decide.setEnabled(can_decide)
            self.load.setVisible(offers)
        show_line(self.message, message)
        show_line(self.fault, fault)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Adapts the height after a change of the questions' layout."""
        if watched is self.questions and event.type() == QEvent.Type.LayoutRequest:
            self._arrange()
        return super().eventFilter(watched, event)

    def _arrange(self) -> None:
        """Lays out the widget. Wide: side by side, the questions scroll. Narrow: in one column, all of it scrolls."""
        is_narrow = self.width() < px(NARROW)
        across, down, up = (
            QBoxLayout.Direction.LeftToRight,
            QBoxLayout.Direction.TopToBottom,
            QBoxLayout.Direction.BottomToTop,
        )
        self._row.setDirection(down if is_narrow else across)
        self._foot.setDirection(up if is_narrow else across)
        if is_narrow and self._row.indexOf(self.strip) < 0:
            self._row.addWidget(self.strip)
        elif not is_narrow and self._lower.indexOf(self.strip) < 0:
            self._lower.insertWidget(0, self.strip)
        self._left.setMaximumWidth(UNLIMITED if is_narrow else px(LEFT if self.width() >= px(TIGHT) else TIGHT_LEFT))
        self._left.setMinimumHeight(px(LEAST_COLUMN) if is_narrow else 0)
        needed = self.questions.heightForWidth(self.width() - 40) if is_narrow else 0
        self._right.setMinimumHeight(max(0, needed))
        self.strip.set_most(round(MAX_CANVAS * self.height()))

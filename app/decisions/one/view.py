"""Questions about one state: the state on the left, questions and answers on the right, the canvas below."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QVBoxLayout, QWidget

from app.decisions.one.questions import QuestionList
from app.decisions.one.state_column import StateColumn
from app.decisions.one.strip import CanvasStrip
from app.design.controls import FocusGroup, Hairline, button, chain_tabs, label, scroller
from app.design.fonts import px
from app.state.decisions.reading import DecisionReading
from app.system.i18n import tr

LEFT, TIGHT_LEFT = 320, 256  # pixels at 100 %
TIGHT, NARROW = 760, 600  # below the latter all stands in one column
MOST_CANVAS = 0.24  # of the height
LEAST_STATE = 360


class OneState(QWidget):
    """Lays out its parts, and shows what a reading comes to."""

    decide_asked = Signal()
    stop_asked = Signal()
    load_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reading: DecisionReading | None = None
        self._temperature = 1.0
        self.column = StateColumn()
        self.questions = QuestionList()
        self.strip = CanvasStrip()
        self.decide = button(tr("Decide"), role="primary", tip=tr("Ask the model (Ctrl+Return)"))
        self.stop = button(tr("Stop"), role="plain")
        self.load = button("", role="plain")
        self.message = label("", "caption", wrap=True)
        self.fault = label("", "error", wrap=True)
        self.decide.clicked.connect(self.decide_asked)
        self.stop.clicked.connect(self.stop_asked)
        self.load.clicked.connect(self.load_asked)
        self._buttons = FocusGroup(self.decide, self.stop)
        self._lay_out()
        self.questions.chosen.connect(self.choose)
        self.strip.question_chosen.connect(self.choose)
        self.questions.changed.connect(self._forget)

    def _lay_out(self) -> None:
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        for made in (self.decide, self.stop, self.load):
            buttons.addWidget(made)
        buttons.addStretch(1)
        self._left = QWidget()
        left = QVBoxLayout(self._left)
        left.setContentsMargins(0, 0, 0, 0)
        left.setSpacing(12)
        left.addWidget(self.column, 1)
        for told in (self.message, self.fault):
            left.addWidget(told)
        left.addLayout(buttons)  # at the lower edge, where no message moves them
        self._right = scroller(self.questions)
        self.questions.installEventFilter(self)
        upper = QWidget()
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, upper)
        self._row.setContentsMargins(16, 16, 8, 8)
        self._row.setSpacing(24)
        self._row.addWidget(self._left)
        self._row.addWidget(self._right, 1)
        lower = QWidget()
        around = QVBoxLayout(lower)
        around.setContentsMargins(16, 8, 16, 12)
        around.addWidget(self.strip)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self._area = scroller(upper)
        column.addWidget(self._area, 1)
        column.addWidget(Hairline())
        column.addWidget(lower)
        chain_tabs(self.column.temperature, (self.decide, self.stop, self.load, self.questions.open))
        self.questions.chain()
        chain_tabs(self.questions.adders[-1], (self.strip.picker, self.strip.inspect, self.strip.canvas))
        self._arrange()

    # ---------------------------------------------------------------- a reading

    def begin(self, reading: DecisionReading | None, temperature: float) -> None:
        """Show another reading, from its beginning."""
        self._reading, self._temperature = reading, temperature
        self.questions.unfold(-1)
        self.questions.forget_answers()
        self.questions.mark_chosen(-1)
        self.strip.show_reading(reading)
        self._area.verticalScrollBar().setValue(self._right.y())  # where they stand below the state

    @Slot()
    def refresh(self) -> None:
        """Show what has come of the reading since."""
        if self._reading is not None:
            self.questions.show_answers(self._reading.answers(self._temperature))
            self.strip.refresh()

    def set_temperature(self, temperature: float) -> None:
        """Tell the probabilities at another temperature; nothing is read again."""
        if temperature != self._temperature:
            self._temperature = temperature
            self.refresh()

    @Slot(int)
    def choose(self, question: int) -> None:
        """Show a question's canvas."""
        if self._reading is not None and question < self._reading.count:
            self.questions.mark_chosen(question)
            self.strip.choose_question(question)

    @Slot()
    def _forget(self) -> None:
        """The questions are others than those that were answered."""
        if self._reading is not None:
            self.begin_nothing()

    def begin_nothing(self) -> None:
        """Show no reading."""
        self._reading = None
        self.questions.forget_answers()
        self.questions.mark_chosen(-1)
        self.strip.show_reading(None)

    # ---------------------------------------------------------------- what can be done

    def show_doing(self, *, is_busy: bool, message: str, fault: str, can_decide: bool, offer: str) -> None:
        """Whether a decision is under way, what the user waits for, why the last one failed; ``offer``: a model."""
        with self._buttons:
            self.stop.setVisible(is_busy)
            self.decide.setVisible(not is_busy)
            self.decide.setEnabled(can_decide)
        if offer:
            self.load.setText(tr("Load {model}", model=offer))
        self.load.setVisible(bool(offer))
        for told, text in ((self.message, message), (self.fault, fault)):
            told.setText(text)
            told.setVisible(bool(text))

    # ---------------------------------------------------------------- looks

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Questions that become more, or longer, need another height."""
        if watched is self.questions and event.type() == QEvent.Type.LayoutRequest:
            self._arrange()
        return super().eventFilter(watched, event)

    def _arrange(self) -> None:
        """Wide: side by side, the questions scroll. Narrow: the state above the questions, all scrolls."""
        is_narrow = self.width() < px(NARROW)
        direction = QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight
        self._row.setDirection(direction)
        self._left.setMaximumWidth(16777215 if is_narrow else px(LEFT if self.width() >= px(TIGHT) else TIGHT_LEFT))
        self._left.setMinimumHeight(px(LEAST_STATE) if is_narrow else 0)
        needed = self.questions.heightForWidth(self.width() - 40) if is_narrow else 0
        self._right.setMinimumHeight(max(0, needed))
        self.strip.set_most(round(MOST_CANVAS * self.height()))

"""The Decisions page: one text on the left, its questions and answers on the right, the canvas below. No model."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.decisions.one.questions import QuestionList
from app.decisions.one.state_column import StateColumn
from app.decisions.one.strip import CanvasStrip
from app.design.controls import FocusGroup, Hairline, button, chain_tabs, label, scroller
from app.design.fonts import px
from app.design.layouts import STRETCH, UNLIMITED, boxed, column_of, row_of
from app.state.decisions.reading import DecisionReading
from app.system.i18n import tr

LEFT, TIGHT_LEFT = 320, 256  # pixels at 100 %
TIGHT, NARROW = 760, 600  # pixels at 100 %; below the second everything is in one column
MOST_CANVAS = 0.24  # share of the height
LEAST_STATE = 360


class DecisionsPage(QWidget):
    """Lays out its parts, and shows a reading."""

    go_asked = Signal()  # by Ctrl+Return

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("decisions")
        self.setAccessibleName(tr("Decisions"))
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
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
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

    def enter(self) -> None:
        """Moves the keyboard focus to the text."""
        self.column.state.setFocus()

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)

    def begin(self, reading: DecisionReading | None) -> None:
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
        """Shows a question's canvas."""
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
        for line, text in ((self.message, message), (self.fault, fault)):
            line.setText(text)
            line.setVisible(bool(text))

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
        direction = QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight
        self._row.setDirection(direction)
        upward = QBoxLayout.Direction.BottomToTop if is_narrow else QBoxLayout.Direction.LeftToRight
        self._foot.setDirection(upward)
        if is_narrow and self._row.indexOf(self.strip) < 0:
            self._row.addWidget(self.strip)
        elif not is_narrow and self._lower.indexOf(self.strip) < 0:
            self._lower.insertWidget(0, self.strip)
        self._left.setMaximumWidth(UNLIMITED if is_narrow else px(LEFT if self.width() >= px(TIGHT) else TIGHT_LEFT))
        self._left.setMinimumHeight(px(LEAST_STATE) if is_narrow else 0)
        needed = self.questions.heightForWidth(self.width() - 40) if is_narrow else 0
        self._right.setMinimumHeight(max(0, needed))
        self.strip.set_most(round(MOST_CANVAS * self.height()))

"""The Tuning tab: the latest result of ``safelight tune``, its plot and figures, and a button that uses the choice."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Signal, Slot
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QStackedWidget, QToolTip, QWidget

from app.batch.panel import RESULTS, TEACHING, show_line, teaching
from app.design import themes
from app.design.controls import button, label, scroller
from app.design.figure_table import FigureTable
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.race.tuning import words
from app.race.tuning.painting import Frontier, drawn, paint_result
from app.state.tuning.result import TuningResult
from app.system.i18n import tr

HEIGHT = 340  # pixels at 100 %
NEAR = 12  # pixels from a mark at which it is named


class FrontierPlot(QWidget):
    """The plot of a result. Pointing at a mark names its rule."""

    def __init__(self) -> None:
        super().__init__()
        self._result: TuningResult | None = None
        self._placed: Frontier | None = None
        self.setAccessibleName(tr("Right answers by steps"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_result(self, result: TuningResult) -> None:
        self._result, self._placed = result, None
        self.setAccessibleDescription(" ".join(words.row_words(row) for row in drawn(result)))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(px(480), px(HEIGHT))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(280), px(HEIGHT))

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._result is None:
            return
        painter = QPainter(self)
        self._placed = paint_result(painter, self.size(), self._result, themes.current())
        painter.end()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.text_at(event.pos().x(), event.pos().y()), self)
            return True
        return super().event(event)

    def text_at(self, x: float, y: float) -> str:
        """Returns the figures of the marks at a place, a line each; empty if there are none."""
        placed = self._placed
        if placed is None:
            return ""
        at = [(row, placed.place(row)) for row in drawn(placed.result)]
        near = [row for row, point in at if abs(point.x() - x) <= NEAR and abs(point.y() - y) <= NEAR]
        return "\n".join(words.row_words(row) for row in near)


class TuningView(QWidget):
    """The tab. Emits that it was shown, so that the latest result is read, and that the choice is to be used."""

    shown = Signal()
    use_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.use = button(tr("Use this setting"), tr("Use the chosen setting from now on"), role="primary")
        self.use.clicked.connect(self.use_asked)
        self.heading, self.reason = label("", wrap=True), label("", "caption", wrap=True)
        self.problem = label("", "error", wrap=True)
        self.plot, self.table, self.pages = FrontierPlot(), FigureTable(), QStackedWidget()
        self.table.setAccessibleName(tr("Figures of the rules"))
        lead = tr(
            "A step keeps some tokens by a rule, and each rule has a threshold. This command tries them on tasks of "
            "your choice, and finds the one with the fewest steps that loses no right answers:"
        )
        command = label("safelight tune --skills", "lead", selectable=True)
        after = label(tr("Its result is shown here."), wrap=True)
        chosen = row_of(self.use, STRETCH, spacing=16)
        test = label(words.method_words(), "caption", wrap=True)
        results = column_of(self.heading, chosen, self.reason, self.plot, self.table, test, STRETCH, spacing=8)
        for page in (teaching(lead, command, after), boxed(results)):
            self.pages.addWidget(page)
        inside = column_of(self.problem, (self.pages, 1), margins=(16, 12, 16, 12), spacing=8)
        self.setLayout(column_of(scroller(boxed(inside))))
        show_line(self.problem, "")

    def show_result(self, result: TuningResult | None) -> None:
        """Shows a result; None shows how to get one."""
        show_line(self.problem, "")
        if result is not None:
            self.heading.setText(words.heading(result))
            self.plot.show_result(result)
            self.table.show_figures(words.heads(), [words.cells(result, row) for row in result.rows])
        self.pages.setCurrentIndex(TEACHING if result is None else RESULTS)

    @Slot(str)
    def show_problem(self, why: str) -> None:
        """Shows why the latest result cannot be read."""
        show_line(self.problem, why)

    def show_use(self, *, can_use: bool, reason: str) -> None:
        """Shows whether the chosen setting can be used now, and why not."""
        self.use.setEnabled(can_use)
        show_line(self.reason, reason)

    def showEvent(self, event: object) -> None:
        super().showEvent(event)  # type: ignore[arg-type]
        self.shown.emit()

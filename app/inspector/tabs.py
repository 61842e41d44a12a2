"""The three tabs next to the canvas: a cell, a change to the run, and the answer as a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QPainter, QPainterStateGuard, QPen, QPolygonF, QResizeEvent, QShowEvent, QTextCursor
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QScrollArea, QWidget

from app.canvas.legend import Legend, LegendEntry
from app.design import themes
from app.design.controls import Hairline, button, introduce, label, scroller, show_line
from app.design.fonts import caption_font, px
from app.design.layouts import STRETCH, boxed, column_of, splitter_of
from app.design.text_field import PlainText
from app.design.tokens import SPACE_2, SPACE_4, Theme, color, set_inks
from app.inspector.answers.panel import ReadAnswers
from app.inspector.canvas.map import StepMap
from app.inspector.cell.history import CellHistory
from app.inspector.cell.text import RenderedText
from app.inspector.forks.panel import ForkPanel
from app.inspector.influence.view import InfluenceView
from app.inspector.story_words import doubts_in_words, end_in_words
from app.inspector.timeline.overview import Overview
from app.inspector.timeline.steps_area import StepsArea
from app.inspector.words import what_comes_first
from app.player.player import NOTHING, Player
from app.state.run.canvas import PinnedRound
from app.state.run.replay import NOISE, Frame
from app.state.run.task_words import has_rounds, kind_words, round_words, task_text
from app.system.i18n import tr
from engine import step_number

LEAST_COLUMN, MAX_COLUMN = 4, 32  # pixels at 100 %
GUTTER, ROW, GAP, NUMBERS = 48, 72, 16, 20  # pixels at 100 %
WIDE = 760  # pixels at 100 %; from this width on the history is next to the map


class StepLine(NamedTuple):
    """A figure over the steps. ``shade`` is the name of a colour of the theme."""

    values: Sequence[float]
    shade: str
    style: Qt.PenStyle = Qt.PenStyle.SolidLine


def round_up(value: float) -> float:
    """Returns the next of …, 1, 2, 5, 10, 20, …; 1 for values of 0 and less."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 5, 10) if value <= step * unit * (1 + 1e-9))


class Curves(StepsArea):
    """Two plots over the same steps: mean entropy above, accepted cells and changed guesses below."""

    def __init__(self, player: Player) -> None:
        super().__init__(player, LEAST_COLUMN, MAX_COLUMN)
        self.rows: tuple[tuple[StepLine, ...], ...] = ()
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(tr("Plots over the steps"))
        self._reload()

    def gutter(self) -> int:
        return px(GUTTER)

    def sizeHint(self) -> QSize:
        return QSize(px(320), 2 * px(ROW + GAP) + px(NUMBERS) + self.horizontalScrollBar().sizeHint().height())

    def load(self) -> None:
        self.setFixedHeight(self.sizeHint().height())
        record = self.record
        if record is None:
            self.rows = ()
            return
        changed = StepLine(record.change_counts.tolist(), "taken_back", Qt.PenStyle.DashLine)
        self.rows = (
            (StepLine(record.mean_entropy.tolist(), "ink"),),
            (StepLine(record.accepted_counts.tolist(), "accepted"), changed),
        )

    def describe(self) -> None:
        frame = self.player.frame
        self.setAccessibleDescription(self.words_at(frame.step) if frame is not None else "")

    def words_at(self, step: int) -> str:
        """Returns the figures of a step; empty outside the block's steps."""
        record = self.record
        if record is None or not NOISE < step < record.steps:
            return ""
        return tr(
            "Step {step}: mean entropy {entropy} nats, {accepted} of {cells} accepted, {changed} guesses changed.",
            step=step_number(step),
            entropy=f"{record.mean_entropy[step]:.3f}",
            accepted=int(record.accepted_counts[step]),
            cells=len(range(record.length)[record.counted]),
            changed=int(record.change_counts[step]),
        )

    def tip_at(self, point: QPoint) -> str:
        return self.words_at(self.step_at(point.x()))

    def paint(self, painter: QPainter, clip: QRect) -> None:
        painter.fillRect(clip, color(themes.current().surface_sunken))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(caption_font())
        for row, lines in enumerate(self.rows if self.steps else ()):
            top = px(GAP) + row * px(ROW + GAP)
            self._paint_row(painter, QRectF(self.gutter(), top, self.viewport().width(), px(ROW)), lines)
        self.paint_step_numbers(painter, 2 * px(ROW + GAP), px(NUMBERS), clip)
        rect = self.cursor_rect()
        if rect is not None and rect.left() >= self.gutter() - 3:
            self.paint_cursor(painter, rect, color(themes.current().accent))
        self.paint_ring(painter)

    def _paint_row(self, painter: QPainter, area: QRectF, lines: Sequence[StepLine]) -> None:
        theme, half = themes.current(), self.column / 2
        most = round_up(max(max(line.values) for line in lines))
        painter.setPen(color(theme.faint_ink))
        for text, y in ((f"{most:g}", area.top()), ("0", area.bottom())):
            place = QRectF(0, y - px(8), self.gutter() - px(8), px(16))
            painter.drawText(place, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
        painter.setPen(QPen(color(theme.line_strong), 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        with QPainterStateGuard(painter):
            painter.setClipRect(area.adjusted(0, -4, 0, 4), Qt.ClipOperation.IntersectClip)
            for line in lines:
                points = [
                    QPointF(self.x_of(step) + half, area.bottom() - area.height() * value / most)
                    for step, value in enumerate(line.values)
                ]
                shade = color(getattr(theme, line.shade))
                painter.setPen(QPen(shade, 1.5, line.style))
                painter.drawPolyline(QPolygonF(points))
                set_inks(painter, Qt.PenStyle.NoPen, shade)
                for point in points:
                    painter.drawEllipse(point, 2, 2)
                painter.setBrush(Qt.BrushStyle.NoBrush)


class Plots(QWidget):
    def __init__(self, player: Player) -> None:
        super().__init__()
        self.area, self.legend = Curves(player), Legend()
        solid, dashed = Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine
        self.legend.set_entries(
            [
                LegendEntry(tr("mean entropy, nats"), partial(_draw, "ink", solid)),
                LegendEntry(tr("accepted cells"), partial(_draw, "accepted", solid)),
                LegendEntry(tr("best guess changed"), partial(_draw, "taken_back", dashed)),
            ]
        )
        margins = (SPACE_4, SPACE_2, SPACE_4, SPACE_4)
        self.setLayout(column_of(self.legend, self.area, margins=margins, spacing=SPACE_2))


def _draw(shade: str, style: Qt.PenStyle, painter: QPainter, rect: QRectF, theme: Theme) -> None:
    painter.setPen(QPen(color(getattr(theme, shade)), 2, style))
    painter.drawLine(QPointF(rect.left(), rect.center().y()), QPointF(rect.right(), rect.center().y()))


class SecondOpinion(QWidget):
    """Asks for the reading by ``asked``; the canvas shows it as the layer of causal probability."""

    asked = Signal()

    def __init__(self) -> None:
        super().__init__(accessibleName=tr("Second opinion"))
        self.read = button(tr("Read it"), tr("Read the text from left to right"), role="plain", clicked=self.asked.emit)
        self.reason = label("", "caption", wrap=True, name=tr("What stands in the way, or comes first"))
        self.problem = label("", "error", wrap=True)  # why a reading failed
        teaching = label(
            tr(
                "The model reads the finished text from left to right. Tokens that it finds unlikely are coloured. "
                "The small models that come with Safelight were not trained for it: they doubt nearly every token."
            ),
            "caption",
            wrap=True,
        )
        title = label(tr("Second opinion"), "setting", wrap=True)
        self.setLayout(column_of(title, teaching, self.read, self.reason, self.problem, spacing=SPACE_2))
        show_line(self.problem, "")

    def set_refusal(self, reason: str, needed: str = "") -> None:
        """Sets why the text cannot be read now; empty if it can. ``needed`` is the model to load first."""
        show_line(self.reason, what_comes_first(needed, reason))
        self.read.setEnabled(not reason or bool(needed))


class TaskView(QWidget):
    """The task of a run, and the rounds of the current block. Choosing a round goes to its frame."""

    def __init__(self, player: Player) -> None:
        super().__init__(accessibleName=tr("What the run was asked for"))
        self._player = player
        self._shown: tuple[PinnedRound, ...] = ()
        self.kind = label("", "lead", wrap=True)
        self.text = introduce(PlainText(readOnly=True), tr("What the run was asked for"), role="code")
        self.caption = label("", "caption", wrap=True)
        self.rounds = introduce(QListWidget(), tr("Rounds of this block"))
        self.rounds.setWordWrap(True)
        self.rounds.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setLayout(
            column_of(
                self.kind,
                self.text,
                self.caption,
                self.rounds,
                margins=(SPACE_4, SPACE_2, SPACE_4, SPACE_4),
                spacing=SPACE_2,
            )
        )
        self.rounds.itemClicked.connect(self._go)
        self.rounds.itemActivated.connect(self._go)
        player.opened.connect(self._open)
        player.grown.connect(self._show)
        player.placed.connect(self._show)

    def showEvent(self, _event: QShowEvent) -> None:
        self.text.moveCursor(QTextCursor.MoveOperation.Start)

    @Slot()
    def _open(self) -> None:
        trace = self._player.trace
        if trace is None:
            return
        self.kind.setText(kind_words(trace.header))
        self.text.setPlainText(task_text(trace.header))
        self.text.moveCursor(QTextCursor.MoveOperation.Start)
        for part in (self.caption, self.rounds):
            part.setVisible(has_rounds(trace.header))
        self._show()

    @Slot()
    def _show(self, _place: int = 0) -> None:
        trace, frame, record = self._player.trace, self._player.frame, self._player.block
        if trace is None or trace.header.output_format is None or frame is None or record is None:
            return
        if record.rounds != self._shown:
            self._shown = record.rounds
            self.rounds.clear()
            for one in record.rounds:
                words = round_words(one)
                self.rounds.addItem(QListWidgetItem(words[:1].upper() + words[1:]))
        said = tr("Rounds: what fits the format is kept, and the rest is written again.")
        self.caption.setText(said if self._shown else tr("No round yet: nothing of this block is kept so far."))
        done = [place for place, one in enumerate(self._shown) if one.step <= frame.step]
        self.rounds.setCurrentRow(done[-1] if done else -1)

    @Slot(QListWidgetItem)
    def _go(self, item: QListWidgetItem) -> None:
        frame, replay = self._player.frame, self._player.replay
        row = self.rounds.row(item)
        if frame is None or replay is None or not 0 <= row < len(self._shown):
            return
        self._player.pause()
        self._player.go(replay.place(Frame(frame.block, self._shown[row].step)))


class EndWords(QWidget):
    def __init__(self, player: Player, overview: Overview) -> None:
        super().__init__(accessibleName=tr("The end of the run"))
        self._player, self._overview = player, overview
        self.words = label("", wrap=True, selectable=True)
        self.setLayout(column_of(self.words, margins=(SPACE_4, SPACE_2, SPACE_4, SPACE_2)))
        for signal in (player.opened, player.grown, overview.known):
            signal.connect(self._say)

    def showEvent(self, _event: QShowEvent) -> None:
        self._say()

    @Slot()
    def _say(self) -> None:
        trace, overview = self._player.trace, self._overview
        if trace is None or not self.isVisible():
            return
        said = [end_in_words(trace.result)]
        if said[0] and overview.complete:
            said.append(doubts_in_words(overview.doubts, trace.piece, is_written=overview.is_written))
        self.words.setText(" ".join(said))


class CellTab(QWidget):
    """The map of all cells, and the history of the selected one: at its side, or below it once a cell is selected."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self._player = player
        self.map, self.history = StepMap(player), CellHistory(player)
        self.hint = label(tr("Select a cell to see its history here."), "caption", wrap=True)
        self.hint.setContentsMargins(SPACE_4, SPACE_2, SPACE_4, SPACE_2)
        self.split = splitter_of((self.map, 1), (self.history, 1), sizes=(300, 300))
        self.setLayout(column_of((self.split, 1), self.hint, spacing=0))
        player.selected.connect(self._fit)  # also when another run is opened
        self._fit()

    @Slot()
    def _fit(self) -> None:
        header = None if self._player.trace is None else self._player.trace.header
        has_map = header is None or header.decision is None  # a decision takes one step
        is_wide = self.width() >= px(WIDE)
        has_history = is_wide or not has_map or self._player.selection != NOTHING
        self.split.setOrientation(Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical)
        self.map.setVisible(has_map)
        self.history.setVisible(has_history)
        self.hint.setVisible(not has_history)

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._fit()


class ChangeTab(QWidget):
    """The panels that use the run's model: changes, what depends on a token, a second opinion, rewritten spans."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self.forks = ForkPanel(player)
        self.influence = InfluenceView(player, self.forks.token)
        self.opinion = SecondOpinion()
        panels = (self.influence, self.opinion, self.forks.spans, self.forks.versions)
        parts = (self.forks, *(part for panel in panels for part in (Hairline(), panel)))
        column = column_of(*parts, STRETCH, margins=(SPACE_4, SPACE_4, SPACE_4, SPACE_4), spacing=SPACE_4)
        self.setLayout(column_of(scroller(boxed(column), arrows=False)))  # the page handles the arrow keys


class AnswerTab(QWidget):
    """The text, the task, its end and plots of its figures: what this kind of run has of them."""

    def __init__(self, player: Player, overview: Overview) -> None:
        super().__init__()
        self._player = player
        self.answers = ReadAnswers(player)
        self.task = TaskView(player)
        self.text = RenderedText(player)
        self.ending = EndWords(player, overview)
        self.plots = Plots(player)
        parts = (self.answers, self.task, (self.text, 1), self.ending, self.plots)
        self.area: QScrollArea = scroller(boxed(column_of(*parts, spacing=0)), arrows=False)
        self.setLayout(column_of(self.area))
        self.answers.lit.connect(lambda row: self.area.ensureWidgetVisible(row, 0, SPACE_2))
        player.opened.connect(self._fit)
        self._fit()

    @Slot()
    def _fit(self) -> None:
        """Shows the parts that this kind of run has."""
        header = None if self._player.trace is None else self._player.trace.header
        is_decision = header is not None and header.decision is not None
        self.answers.setVisible(is_decision)
        self.task.setVisible(header is not None and bool(kind_words(header)))
        for part in (self.ending, self.plots):
            part.setVisible(not is_decision)

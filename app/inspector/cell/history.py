"""The history of the selected position: a chart over the steps, a description, and the current candidates."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Slot
from PySide6.QtGui import QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QBoxLayout,
    QHeaderView,
    QSizePolicy,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from app.canvas.legend import Legend, LegendEntry
from app.canvas.words import STATE_TIPS, token_words
from app.design import themes
from app.design.controls import label, scroller, show_line
from app.design.fonts import px
from app.design.layouts import boxed, column_of
from app.design.tokens import SPACE_2, SPACE_4, Theme, color
from app.inspector.cell.rank_chart import BumpChart
from app.inspector.cell.rank_paths import paint_argmax, paint_sample, paint_taken_back
from app.inspector.words import Piece, capital, chance_words, history_in_words, log_words, moment_in_words
from app.player.player import Player
from app.state.run.canvas import CellState
from app.state.run.cell_history import OUTSIDE, History
from app.system.i18n import tr


class CandidateTable(QTableWidget):
    """The likeliest tokens at one step, with rank, probability and fate."""

    def __init__(self) -> None:
        super().__init__(0, 4)
        self.setHorizontalHeaderLabels([tr("rank"), tr("token"), tr("probability"), tr("at this step")])
        self.setAccessibleName(tr("Candidates at this step"))
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setHighlightSections(False)
        header.setStretchLastSection(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        themes.changed.connect(self._fit)
        self._fit()

    def set_rows(self, rows: Sequence[tuple[str, str, str, str]], tips: Sequence[str]) -> None:
        """Shows rows of rank, token, probability, and the token's fate at the step, with a tip for each. Writes only
        the changed cells.
        """
        if self.rowCount() != len(rows):
            self.setRowCount(len(rows))
            self.updateGeometry()
        for place, row in enumerate(rows):
            for column, text in enumerate(row):
                item = self.item(place, column)
                if item is None:
                    item = QTableWidgetItem()
                    self.setItem(place, column, item)
                if item.text() != text:
                    item.setText(text)
                if item.toolTip() != tips[place]:
                    item.setToolTip(tips[place])

    def rows(self) -> list[tuple[str, ...]]:
        return [
            tuple(item.text() if (item := self.item(row, column)) else "" for column in range(4))
            for row in range(self.rowCount())
        ]

    @Slot()
    def _fit(self) -> None:
        self.verticalHeader().setDefaultSectionSize(px(26))
        self.verticalHeader().setMinimumSectionSize(px(20))
        self._share_width()

    def _share_width(self) -> None:
        rank = px(52)
        rest = max(self.viewport().width() - rank, px(180))
        for column, width in enumerate((rank, 0.32 * rest, 0.29 * rest)):  # the last column takes the rest
            self.setColumnWidth(column, round(width))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_width()

    def sizeHint(self) -> QSize:
        return QSize(px(380), px(34) + max(self.rowCount(), 4) * px(26))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(240), px(34) + 3 * px(26))


WIDE = 880  # pixels at 100 %; from this width on the table is next to the chart


class CellHistory(QWidget):
    """The chart, description and candidate table of one position."""

    def __init__(self, player: Player) -> None:
        super().__init__(accessibleName=tr("History of this cell"))
        self._player = player
        self.title = label("", "lead")
        self.chart = BumpChart(player)
        self.legend = Legend()
        self.sentence = label("", wrap=True, selectable=True, name=tr("The history in words"))
        self.now = label("", "caption", wrap=True, selectable=True, name=tr("This step in words"))
        self.note = label("", "caption", wrap=True)
        self.table = CandidateTable()
        left = column_of(self.chart, self.legend, self.sentence)
        right = column_of(self.now, self.table, self.note)
        self._split = column_of(left, right, spacing=SPACE_4)
        column = column_of(self.title, self._split, 0, margins=(SPACE_4, SPACE_2, SPACE_4, SPACE_4))
        self.area = scroller(boxed(column))  # scrolls if the panel is lower than its contents
        self.setLayout(column_of(self.area))
        for layout in (left, right, column):
            layout.setSpacing(SPACE_2)
            layout.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.chart.shown.connect(self._update_words)
        self._update_words()

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self.chart.set_room(self.height() - self.title.sizeHint().height() - 3 * SPACE_2)
        wide = self.width() >= px(WIDE)
        direction = QBoxLayout.Direction.LeftToRight if wide else QBoxLayout.Direction.TopToBottom
        if direction != self._split.direction():
            self._split.setDirection(direction)
            for part in (0, 1):
                self._split.setStretch(part, int(wide))  # side by side both have the same width

    @Slot()
    def _update_words(self) -> None:
        bio, frame, piece = self.chart.bio, self._player.frame, self._player.piece
        if bio is None or frame is None:
            self._say(tr("History of this cell"), "", "", "")
            self._show_table(None, 0)
            self.chart.setAccessibleDescription(self.chart.empty_text())
            self.setAccessibleDescription(self.chart.empty_text())
            return
        title, replay = capital(self._player.name_of(bio.position)), self._player.replay
        if replay is not None and replay.is_decision:
            title = tr("{cell}, read {read}", cell=title, read=bio.block + 1)
        elif replay is not None and replay.blocks > 1:
            title = tr("{cell}, block {block}", cell=title, block=bio.block + 1)
        self.title.setToolTip(tr("Position {position} of block {block}", position=bio.position, block=bio.block + 1))
        if self.chart.is_light:
            title = tr("{title}, under the pointer", title=title)
        note = ""
        if not bio.depth and bio.steps:
            note = tr("The likeliest tokens were not recorded: only the best guess and the sampled token are known.")
        whole, now = history_in_words(bio, piece), moment_in_words(bio, frame.step, piece)
        self._say(title, whole, now, note)
        self._show_table(bio, frame.step)
        words = " ".join(text for text in (title + ".", whole, now, note) if text)
        self.chart.setAccessibleDescription(words)
        self.setAccessibleDescription(words)

    def _say(self, title: str, whole: str, now: str, note: str) -> None:
        for part, text in ((self.title, title), (self.sentence, whole), (self.now, now), (self.note, note)):
            show_line(part, text)
        if self.chart.bio is None:
            self.legend.hide()
        else:
            self.legend.set_entries(_entries(bool(self.chart.bio.depth)))
            self.legend.show()

    def _show_table(self, bio: History | None, step: int) -> None:
        if bio is None or not bio.depth:
            self.table.hide()
            return
        self.table.show()
        at, piece = min(step, bio.steps - 1), self._player.piece
        self.table.set_rows(*(_rows(bio, at, piece), _tips(bio, at, piece)) if step >= 0 else ([], []))


def _tips(bio: History, step: int, piece: Piece) -> list[str]:
    """Returns the tips of the rows: token, its number, its probability and the logarithm of that."""
    tips = []
    for token, share in bio.top(step):
        fields = {"token": token_words(piece(token)), "id": token, "share": f"{share:.3g}"}
        if share > 0:
            tips.append(tr("{token}, token {id}: p {share}, log p {log}", log=log_words(share), **fields))
        else:
            tips.append(tr("{token}, token {id}: p {share}", **fields))
    if bio.candidate_ranks[step] == OUTSIDE:
        sample = int(bio.candidates[step])
        tips.append(tr("{token}, token {id}", token=token_words(piece(sample)), id=sample))
    return tips


def _rows(bio: History, step: int, piece: Piece) -> list[tuple[str, str, str, str]]:
    sample, guess = int(bio.candidates[step]), int(bio.argmax[step])
    accepted = bool(bio.accepted[step])
    fate = tr("sampled, accepted") if accepted else tr("sampled, not accepted")
    both = tr("best guess, accepted") if accepted else tr("best guess, not accepted")  # was sampled, too
    if bio.has_masks and not accepted:
        fate, both = tr("sampled, not written"), tr("best guess, not written")
    rows = []
    for rank, (token, share) in enumerate(bio.top(step)):
        of_guess = both if token == sample else tr("best guess")
        was = of_guess if token == guess else fate if token == sample else ""
        rows.append((str(rank + 1), token_words(piece(token)), chance_words(share), was))
    if bio.candidate_ranks[step] == OUTSIDE:
        rows.append((f">{bio.depth}", token_words(piece(sample)), tr("not recorded"), fate))
    return rows


def _draw_line(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    for share, width in ((0.25, 1.2), (0.7, 5.0)):
        painter.setPen(QPen(color(theme.faint_ink), width))
        y = rect.top() + share * rect.height()
        painter.drawLine(QPointF(rect.left() + 1, y), QPointF(rect.right() - 1, y))


def _draw_entropy(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    painter.setPen(QPen(color(theme.faint_ink), 1.4))
    points = [(0, 0.2), (0.4, 0.35), (0.7, 0.8), (1, 0.85)]
    painter.drawPolyline([QPointF(rect.left() + x * rect.width(), rect.top() + y * rect.height()) for x, y in points])


def _entries(with_lines: bool) -> tuple[LegendEntry, ...]:
    ranks = LegendEntry(
        tr("by rank, thicker: likelier"),
        _draw_line,
        tip=tr("A line for each likely token: the likeliest at the top, thicker where its probability is higher"),
    )
    entries = (
        LegendEntry(
            tr("best guess"),
            lambda painter, rect, theme: paint_argmax(painter, rect.center(), px(7), color(theme.ink)),
            tip=tr("The likeliest token of a step"),
        ),
        LegendEntry(
            tr("sampled, accepted"),
            lambda painter, rect, theme: paint_sample(painter, rect.center() - QPointF(0, 1), px(5), theme, True),
            tip=tr("The token that was sampled at a step, and sure enough to stay"),
        ),
        LegendEntry(
            tr("sampled, not accepted"),
            lambda painter, rect, theme: paint_sample(painter, rect.center(), px(5), theme, False),
            tip=tr("The token that was sampled at a step, and replaced by a random one"),
        ),
        LegendEntry(
            tr("taken back"),
            lambda painter, rect, theme: paint_taken_back(painter, rect.center(), px(4), theme),
            tip=tr(STATE_TIPS[CellState.TAKEN_BACK]),
        ),
    )
    unsure = LegendEntry(tr("entropy, nats"), _draw_entropy, tip=tr("How unsure the model is of this cell; 0 is sure"))
    return (*entries, *((ranks,) if with_lines else ()), unsure)

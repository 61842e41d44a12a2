"""The options of a question, each with a bar and a tick for every read. Independent of the player."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.design import themes
from app.design.fonts import caption_font, px
from app.design.tokens import SPACE_2, color, set_inks
from app.state.run.answers import share_words
from app.system.i18n import tr
from engine.tasks.decisions.answers import LabelRead, TypedAnswer

ROW = 22  # pixels at 100 %
BAR = 8
TICK = 14  # the height of a read's tick
MAX_NAME = 0.34  # of the width


class ReadBars(QWidget):
    """A bar for every option, empty before the first read. The likeliest option is bold and has a dot before it."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(accessibleName=tr("Probability of each option"))
        self._names = tuple(names)
        self._answer: TypedAnswer | None = None
        self._reads: tuple[LabelRead, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        themes.changed.connect(self.updateGeometry)

    def show_names(self, names: Sequence[str]) -> None:
        """Shows other options, without an answer."""
        self._names, self._answer = tuple(names), None
        self.updateGeometry()
        self.update()

    def show_answer(self, answer: TypedAnswer | None, reads: Sequence[LabelRead]) -> None:
        """Shows the answer after the reads so far; None before the first."""
        self._answer, self._reads = answer, tuple(reads)
        shares = () if answer is None else answer.probabilities
        described = (f"{name}: {share_words(share)}" for name, share in zip(self._names, shares, strict=False))
        self.setAccessibleDescription(tr("; ").join(described))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(px(320), px(ROW) * len(self._names))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(160), self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            font = caption_font()
            bold = QFont(font)
            bold.setBold(True)
            widest = max((QFontMetrics(bold).horizontalAdvance(name) for name in self._names), default=0)
            name_width = min(widest + 1, int(MAX_NAME * self.width()))
            figure_width = QFontMetrics(bold).horizontalAdvance(self._figure(1.0, 0.1)) + 1
            left, gap = px(14), px(SPACE_2)
            track = QRectF(
                left + name_width + gap, 0, self.width() - left - name_width - figure_width - 2 * gap, px(BAR)
            )
            for place, name in enumerate(self._names):
                best = self._answer is not None and place == self._answer.best
                painter.setFont(bold if best else font)
                row = QRectF(0, place * px(ROW), self.width(), px(ROW))
                track.moveTop(row.center().y() - track.height() / 2)
                self._paint_row(painter, row, QRectF(left, row.y(), name_width, row.height()), track, place, name)

    def _paint_row(
        self, painter: QPainter, row: QRectF, name_room: QRectF, track: QRectF, place: int, name: str
    ) -> None:
        theme, answer = themes.current(), self._answer
        best = answer is not None and place == answer.best
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setPen(color(theme.ink if best else theme.faint_ink))
        shown = painter.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, int(name_room.width()))
        painter.drawText(name_room, middle | Qt.AlignmentFlag.AlignLeft, shown)
        set_inks(painter, Qt.PenStyle.NoPen, color(theme.line))
        painter.drawRoundedRect(track, 2, 2)
        if answer is None:
            return
        share = answer.probabilities[place]
        if best:
            painter.setBrush(color(theme.accent))
            painter.drawEllipse(QPointF(row.left() + px(5), row.center().y()), px(3), px(3))
        painter.setBrush(color(theme.accent if best else theme.candidate))
        painter.drawRoundedRect(QRectF(track.x(), track.y(), max(1.0, share * track.width()), track.height()), 2, 2)
        if len(self._reads) > 1:
            self._paint_reads(painter, track, place)
        painter.setPen(color(theme.ink if best else theme.faint_ink))
        figure = self._figure(share, answer.spread[place] if answer.reads > 1 else 0.0)
        painter.drawText(row, middle | Qt.AlignmentFlag.AlignRight, figure)

    def _paint_reads(self, painter: QPainter, track: QRectF, place: int) -> None:
        """Draws a tick at each read's probability of this option. The latest tick is longer."""
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for number, read in enumerate(self._reads):
            x = track.x() + read.probabilities()[place] * track.width()
            is_latest = number == len(self._reads) - 1
            half = px(TICK) / 2 if is_latest else px(TICK) / 3
            painter.setPen(QPen(color(themes.current().ink if is_latest else themes.current().faint_ink), 1.5))
            painter.drawLine(QPointF(x, track.center().y() - half), QPointF(x, track.center().y() + half))

    @staticmethod
    def _figure(share: float, spread: float) -> str:
        """Returns a probability in words, with its standard error unless that is 0."""
        words = share_words(share)
        return tr("{share} ± {spread}", share=words, spread=f"{100 * spread:.1f}") if spread else words

"""A question's options, each with a bar for its probability; the answer has a mark. Knows no model."""

from __future__ import annotations

from PySide6.QtCore import QEasingCurve, QEvent, QPointF, QRectF, QSize, Qt, QVariantAnimation, Slot
from PySide6.QtGui import QFont, QFontMetrics, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.decisions import words
from app.design import motion, themes
from app.design.fonts import TEXT_SMALL, px, ui_font
from app.design.tokens import SPACE_2, color
from app.state.decisions.drafts import QuestionDraft
from app.state.run.answers import share_words
from app.system.i18n import tr
from engine.tasks.decisions.answers import TypedAnswer

ROW = 24  # pixels at 100 %
BAR = 8
MARK = 20  # width of the column for the mark
MOST_NAME = 0.36  # share of the width
FILL_MS = 180  # until a bar has its length
WHISKER = 3  # pixels; half the height of an error bar's ends


class AnswerBars(QWidget):
    """The bars of one question; empty while there is no answer."""

    def __init__(self, draft: QuestionDraft, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._draft = draft
        self.answer: TypedAnswer | None = None
        self._from: tuple[float, ...] = ()
        self._fill = QVariantAnimation(self)
        self._fill.setDuration(FILL_MS)
        self._fill.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._fill.setStartValue(0.0)
        self._fill.setEndValue(1.0)
        self._fill.valueChanged.connect(self.update)
        motion.changed.connect(self._end_fill)
        themes.changed.connect(self.updateGeometry)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._describe()

    @property
    def is_filling(self) -> bool:
        """True while the bars are animated."""
        return self._fill.state() == QVariantAnimation.State.Running

    def set_draft(self, draft: QuestionDraft) -> None:
        """Shows another question's options, without an answer."""
        self._draft, self.answer = draft, None
        self._fill.stop()
        self.updateGeometry()
        self._describe()
        self.update()

    def set_answer(self, answer: TypedAnswer | None) -> None:
        """Fills the bars from their current lengths; None empties them."""
        self._from = self._shares() or (0.0,) * len(self._draft.options)
        self.answer = answer
        self._fill.stop()
        if answer is not None and not motion.is_reduced() and self.isVisible():
            self._fill.start()
        self._describe()
        self.update()

    @Slot()
    def _end_fill(self) -> None:
        if motion.is_reduced():
            self._fill.stop()
            self.update()

    def _shares(self) -> tuple[float, ...]:
        """Returns each bar's current length, 0 to 1; empty without an answer."""
        if self.answer is None:
            return ()
        ends = words.shares(self.answer)
        if not self.is_filling:
            return ends
        done = float(self._fill.currentValue())
        return tuple(start + done * (end - start) for start, end in zip(self._from, ends, strict=True))

    def _describe(self) -> None:
        self.setAccessibleName(tr("Answer to {question}", question=self._draft.name or self._draft.instructions))
        self.setAccessibleDescription(tr("No answer yet.") if self.answer is None else words.spoken(self.answer))

    def sizeHint(self) -> QSize:
        return QSize(px(240), len(self._draft.options) * px(ROW))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(160), self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        plain, bold = _font(bold=False), _font(bold=True)
        metrics = QFontMetrics(bold)
        titles = [words.option_title(self._draft.kind, option.name) or words.UNKNOWN for option in self._draft.options]
        marks = [words.mark_of(self._draft.kind, place) for place in range(len(titles))]
        marks_width = max(map(metrics.horizontalAdvance, marks)) + SPACE_2 if marks[0] else 0
        widest = max(map(metrics.horizontalAdvance, titles)) + SPACE_2 + 4
        names_width = min(widest, round(MOST_NAME * self.width()))
        left = px(MARK) + marks_width
        ends = () if self.answer is None else map(share_words, words.shares(self.answer))
        number_width = max(map(metrics.horizontalAdvance, ("100.0 %", *ends))) + SPACE_2
        track = QRectF(left + names_width, 0, max(24, self.width() - left - names_width - number_width), px(BAR))
        shares = self._shares()
        best = self.answer.best if self.answer is not None and words.is_answer(self.answer) else -1
        for place, title in enumerate(titles):
            row = QRectF(0, place * px(ROW), self.width(), px(ROW))
            is_best = place == best
            painter.setFont(bold if is_best else plain)
            painter.setPen(color(themes.current().ink if is_best or best < 0 else themes.current().faint_ink))
            if is_best:
                self._paint_check(painter, row)
            middle = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(row.adjusted(px(MARK), 0, 0, 0), middle, marks[place])
            shown = metrics.elidedText(title, Qt.TextElideMode.ElideRight, names_width - SPACE_2)
            painter.drawText(row.adjusted(left, 0, 0, 0), middle, shown)
            track.moveTop(row.center().y() - track.height() / 2)
            self._paint_bar(painter, track, shares[place] if shares else 0.0, is_best=is_best)
            if shares:
                self._paint_spread(painter, track, place)
                painter.setPen(color(themes.current().ink if is_best else themes.current().faint_ink))
                painter.drawText(row, middle | Qt.AlignmentFlag.AlignRight, share_words(shares[place]))
        painter.end()

    def _paint_check(self, painter: QPainter, row: QRectF) -> None:
        size, middle = px(10), row.center().y()
        painter.save()
        pen = QPen(color(themes.current().accent), 2)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        painter.setPen(pen)
        painter.translate(2, middle - size / 2)
        painter.drawPolyline([_at(size, 0.1, 0.55), _at(size, 0.4, 0.85), _at(size, 0.95, 0.2)])
        painter.restore()

    def _paint_bar(self, painter: QPainter, track: QRectF, share: float, *, is_best: bool) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color(themes.current().line))
        painter.drawRoundedRect(track, 2, 2)
        if share > 0:
            filled = QRectF(track)
            filled.setWidth(max(1.0, track.width() * share))
            painter.setBrush(color(themes.current().accent if is_best else themes.current().noise))
            painter.drawRoundedRect(filled, 2, 2)

    def _paint_spread(self, painter: QPainter, track: QRectF, place: int) -> None:
        """Draws an error bar of one standard error to either side, once the bar has its length."""
        answer = self.answer
        if answer is None or answer.reads < 2 or self.is_filling or not words.is_answer(answer):
            return
        share, spread = answer.probabilities[place], answer.spread[place]
        low, high = (track.left() + track.width() * min(1.0, max(0.0, share + by)) for by in (-spread, spread))
        if high - low < 2:
            return
        painter.setPen(QPen(color(themes.current().ink), 1))
        middle = track.center().y()
        painter.drawLine(round(low), round(middle), round(high), round(middle))
        for x in (low, high):
            painter.drawLine(round(x), round(middle - WHISKER), round(x), round(middle + WHISKER))

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            place = int(event.pos().y() // px(ROW))
            option = self._draft.options[place] if 0 <= place < len(self._draft.options) else None
            text = "" if option is None else "\n".join(filter(None, (option.name, option.description)))
            QToolTip.showText(event.globalPos(), text, self)
            return True
        return super().event(event)


def _at(size: int, x: float, y: float) -> QPointF:
    return QPointF(size * x, size * y)


def _font(*, bold: bool) -> QFont:
    font = ui_font()
    font.setPixelSize(px(TEXT_SMALL + 1))
    font.setBold(bold)
    return font

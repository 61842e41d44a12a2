"""Shows how full the model's context is and what will be left out. Counts in a thread, shortly after typing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QFont, QFontMetrics, QGuiApplication, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.bridge.background import Background
from app.design.fonts import TEXT_SMALL, px
from app.state.chat.counting import problem, remark
from app.system.crash_handler import one_line
from app.system.i18n import tr
from app.system.timers import later
from engine.text.context_window import Count, Fit, fit
from engine.text.message import Message

DEBOUNCE_MS = 250
BAR_HEIGHT = 3
SHORTEST_BAR = 48

Source = Callable[[], Sequence[Message]]
"""Returns the conversation as it would be sent now."""


class ContextMeter(QWidget):
    """A bar with numbers above it; hidden without a model. ``fit`` is None until the tokens are counted.

    ``follow`` sets what to count, ``set_model`` how; ``touch`` starts counting.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.fit: Fit | None = None
        self.text = ""
        self._short = ""  # shown if there is no room for the text
        self._note = ""
        self._source: Source | None = None
        self._count: Count | None = None
        self._limit = self._reserve = 0
        self.setAccessibleName(tr("Context"))
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._pause = later(self, self.measure, DEBOUNCE_MS)
        self._counting = Background(self, self._counted)
        self._counting.failed.connect(self._not_counted)
        self.hide()

    @property
    def remark(self) -> str:
        """A sentence about what will be left out, or why the prompt does not fit; empty if everything fits."""
        return remark(self.fit)

    @property
    def problem(self) -> str:
        """The reason why the prompt does not fit; empty if it does, or while that is unknown."""
        return "" if self.is_counting else problem(self.fit)

    @property
    def is_counting(self) -> bool:
        """True if a count is due or running."""
        return self._pause.isActive() or self._counting.is_busy

    def follow(self, source: Source) -> None:
        """Takes the conversation from ``source`` whenever it is counted."""
        self._source = source
        self.touch()

    def note(self, note: str) -> None:
        """Sets a sentence about what the model does not read, so is not counted; empty if it reads everything."""
        self._note = note
        self.touch()

    def set_model(self, count: Count | None, limit: int = 0, reserve: int = 0) -> None:
        """Sets a model's token counter, its context length, and the tokens to keep free for the answer.

        ``count`` is called from another thread; None when no model is loaded.
        """
        if count is None or count != self._count:
            self._counting.drop()
            self._show(None, "", "")
        self._count, self._limit, self._reserve = count, limit, reserve
        self.setVisible(count is not None)
        self.touch()

    def touch(self) -> None:
        """Counts again ``DEBOUNCE_MS`` after the last call, for a changed conversation or draft."""
        if self._count is not None and self._source is not None:
            self._pause.start()

    @Slot()
    def measure(self) -> None:
        self._pause.stop()
        count, limit, reserve = self._count, self._limit, self._reserve
        if count is None or self._source is None:
            return
        messages = tuple(self._source())
        self._counting.ask(lambda: fit(messages, count, limit, reserve))

    @Slot(object)
    def _counted(self, found: Fit) -> None:
        numbers = tr("{used} of {limit} tokens", used=f"{found.tokens:,}", limit=f"{found.limit:,}")
        if found.problem:
            numbers = tr("Too long: {numbers}", numbers=numbers)
        explained = tr(
            "What the model will read takes {used} of the {limit} tokens that it can; {reserve} are kept free for the "
            "answer.",
            used=f"{found.tokens:,}",
            limit=f"{found.limit:,}",
            reserve=f"{found.reserve:,}",
        )
        self._show(found, numbers, "\n".join(part for part in (explained, self._note, remark(found)) if part))

    @Slot(object)
    def _not_counted(self, error: Exception) -> None:
        self._show(None, tr("Tokens not counted"), one_line(error))

    def _show(self, found: Fit | None, text: str, explained: str) -> None:
        self.fit = found
        self.text = text
        self._short = f"{found.tokens / max(1, found.limit):.0%}" if found is not None else text
        self.setToolTip(explained)
        self.setAccessibleDescription(" ".join((text, explained)).strip())
        self.updateGeometry()
        self.update()
        self.changed.emit()

    def _font(self) -> QFont:
        font = QFont(self.font())
        font.setPixelSize(px(TEXT_SMALL))
        return font

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.updateGeometry()

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(self._font())
        return QSize(max(SHORTEST_BAR, metrics.horizontalAdvance(self.text) + 2), metrics.height() + 4 + BAR_HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(SHORTEST_BAR, self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        palette = QGuiApplication.palette()  # the theme's; a style sheet may change this widget's own
        too_much = self.fit is not None and bool(self.fit.problem)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = self._font()
        painter.setFont(font)
        ink = palette.color(QPalette.ColorRole.PlaceholderText)
        if self.remark:
            ink = palette.color(QPalette.ColorRole.Text)
        painter.setPen(ink)
        metrics = QFontMetrics(font)
        fits = metrics.horizontalAdvance(self.text) <= self.width()
        shown = self.text if fits else metrics.elidedText(self._short, Qt.TextElideMode.ElideRight, self.width())
        painter.drawText(0, metrics.ascent(), shown)
        if self.fit is None:
            painter.end()
            return
        top, width = self.height() - BAR_HEIGHT, float(self.width())
        limit = max(1, self.fit.limit)
        used = width * min(1.0, self.fit.tokens / limit)
        reserved = min(width - used, width * self.fit.reserve / limit)
        painter.setPen(Qt.PenStyle.NoPen)
        warning = palette.color(QPalette.ColorRole.BrightText)
        for left, length, shade in (
            (0.0, width, palette.color(QPalette.ColorRole.Light)),
            (used, reserved, palette.color(QPalette.ColorRole.Mid)),
            (0.0, used, warning if too_much else ink),
        ):
            painter.setBrush(shade)
            painter.drawRect(QRectF(left, top, length, BAR_HEIGHT))
        painter.end()

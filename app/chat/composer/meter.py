"""Shows how full the model's context is and what will be left out. Counts in a thread, shortly after typing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QWidget

from app.bridge.background import Background
from app.design.controls import introduce, label
from app.design.layouts import column_of
from app.state.chat.prompts import problem, remark
from app.system.crash_handler import one_line
from app.system.i18n import tr
from app.system.timers import later
from engine.text.context_window import Count, Fit, fit
from engine.text.message import Message

DEBOUNCE_MS = 250
SHORTEST = 48  # pixels

Source = Callable[[], Sequence[Message]]
"""Returns the conversation as it would be sent now."""


class ContextMeter(QWidget):
    """Numbers with a bar below; hidden without a model. ``fit`` is None until the tokens are counted.

    ``follow`` sets what to count, ``set_model`` how; ``touch`` starts counting.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__(accessibleName=tr("Context"))
        self.fit: Fit | None = None
        self.text = ""
        self._short = ""  # shown if there is no room for the text
        self._source: Source | None = None
        self._count: Count | None = None
        self._limit = self._reserve = 0
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._said = label("", "caption")
        self._said.setMinimumWidth(1)  # else the numbers would not become shorter
        self._bar = introduce(QProgressBar(textVisible=False), role="bar")
        self.setLayout(column_of(self._said, self._bar, spacing=4))
        self._pause = later(self, self.measure, DEBOUNCE_MS)
        self._counting = Background(self, self._counted)
        self._counting.failed.connect(lambda error: self._show(None, tr("Tokens not counted"), one_line(error)))
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
    def _counted(self, fit: Fit) -> None:
        numbers = tr("{used} of {limit} tokens", used=f"{fit.tokens:,}", limit=f"{fit.limit:,}")
        if fit.problem:
            numbers = tr("Too long: {numbers}", numbers=numbers)
        explained = tr(
            "What the model will read takes {used} of the {limit} tokens that it can; {reserve} are kept free for the "
            "answer.",
            used=f"{fit.tokens:,}",
            limit=f"{fit.limit:,}",
            reserve=f"{fit.reserve:,}",
        )
        self._show(fit, numbers, "\n".join(filter(None, (explained, remark(fit)))))

    def _show(self, fit: Fit | None, text: str, explained: str) -> None:
        self.fit = fit
        self.text = text
        self._short = f"{fit.tokens / max(1, fit.limit):.0%}" if fit is not None else text
        self.setToolTip(explained)
        self.setAccessibleDescription(" ".join((text, explained)).strip())
        self._bar.setVisible(fit is not None)
        if fit is not None:
            self._bar.setRange(0, max(1, fit.limit))
            self._bar.setValue(min(fit.tokens, fit.limit))
        self._write()
        self.updateGeometry()
        self.changed.emit()

    def _write(self) -> None:
        """Writes the numbers, in short where there is no room for them."""
        fits = self._said.fontMetrics().horizontalAdvance(self.text) < self.width()
        self._said.setText(self.text if fits else self._short)

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._write()

    def sizeHint(self) -> QSize:
        width = self._said.fontMetrics().horizontalAdvance(self.text) + 2
        return QSize(max(SHORTEST, width), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(SHORTEST, super().minimumSizeHint().height())

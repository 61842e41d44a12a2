"""The card of the guided minute: a title, a sentence, and its buttons. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QRect, Qt, Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QResizeEvent
from PySide6.QtWidgets import QFrame

from app.design import themes
from app.design.controls import button, label
from app.design.layouts import column_of, row_of
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4
from app.system.i18n import tr


class GuideCard(QFrame):
    """Has the height of the longest of the sentences given to ``reserve``, so that nothing jumps."""

    back_asked = Signal()
    next_asked = Signal()
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "guide")
        self.title, self.sentence = label("", "caption", wrap=True), label("", "setting", wrap=True)
        self.back = button(tr("Back"), tr("Back to the step before"), clicked=self.back_asked)
        self.next = button(tr("Next"), role="primary", clicked=self.next_asked)
        self.leave = button(tr("Leave"), tr("Leave the guided minute"), tip=tr("Esc"), clicked=self.left)
        self._reserved: tuple[str, ...] = ()
        head = row_of((self.title, 1), self.back, self.next, self.leave, spacing=SPACE_4)
        self.setLayout(column_of(head, self.sentence, margins=(SPACE_4, SPACE_1, SPACE_4, SPACE_2), spacing=0))
        themes.settled.connect(self._fit)

    def reserve(self, sentences: Iterable[str]) -> None:
        """Makes room for the longest of the sentences."""
        self._reserved = tuple(sentences)
        self._fit()

    def show_step(self, title: str, sentence: str, act: str = "", *, can_go_back: bool = True) -> None:
        """Shows a step, and lets screen readers say it. ``act`` is the text of the button that goes on."""
        if (title, sentence) == (self.title.text(), self.sentence.text()):
            return
        self.title.setText(title)
        self.sentence.setText(sentence)
        self.next.setText(act or tr("Next"))
        self.next.setAccessibleName(act or tr("Next"))
        self.back.setEnabled(can_go_back)
        self.setAccessibleName(title)
        for part in (self, self.next):
            part.setAccessibleDescription(sentence)
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, f"{title}. {sentence}"))

    @Slot()
    def _fit(self) -> None:
        metrics, room = self.sentence.fontMetrics(), QRect(0, 0, self.width() - 2 * SPACE_4, 0)
        wrap = Qt.TextFlag.TextWordWrap
        heights = [metrics.boundingRect(room, wrap, text).height() for text in self._reserved]
        self.sentence.setMinimumHeight(max(heights, default=0))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

"""The card of the guided minute: a title, a sentence, and its buttons. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QRect, Qt, Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame

from app.design import themes
from app.design.controls import button, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4
from app.system.i18n import tr

WIDE = 620  # pixels at 100 %; from this width on the buttons are next to the sentence


class GuideCard(QFrame):
    """Has the height of the longest of the sentences that it was told to ``reserve``, so that nothing jumps."""

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
        self._words = column_of(self.title, self.sentence, spacing=SPACE_1)
        buttons = row_of(STRETCH, self.back, self.next, self.leave, spacing=SPACE_4)
        margins = (SPACE_4, SPACE_2, SPACE_4, SPACE_2)
        self._row = row_of((self._words, 1), buttons, margins=margins, spacing=SPACE_4)
        self.setLayout(self._row)
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
        is_wide = self.width() >= px(WIDE)
        self._row.setDirection(QBoxLayout.Direction.LeftToRight if is_wide else QBoxLayout.Direction.TopToBottom)
        self._row.activate()
        metrics, room = self.sentence.fontMetrics(), QRect(0, 0, self.sentence.width(), 0)
        wrap = Qt.TextFlag.TextWordWrap
        heights = [metrics.boundingRect(room, wrap, text).height() for text in self._reserved]
        self.sentence.setMinimumHeight(max(heights, default=0))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

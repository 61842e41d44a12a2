"""The page of the Lab: a card for each of its pages. Knows no model."""

from __future__ import annotations

import functools

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.context import DECISIONS, RACE
from app.design.card import Card
from app.design.column_page import WIDTH, ColumnPage
from app.design.controls import label
from app.design.fonts import px
from app.design.layouts import Gap, row_of
from app.system.i18n import tr

GAP = 16
SIDE_BY_SIDE = 560  # pixels at 100 %; in a narrower column the cards are below each other


class LabPage(ColumnPage):
    """Emits the name of the page whose card was chosen."""

    page_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("lab")
        self.setAccessibleName(tr("Lab"))
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # it scrolls to the focused card
        purpose = tr(
            "Measure how a model works: compare its speed with different decodings, or see how sure it is of an answer."
        )
        self.race = self._card(
            RACE,
            tr("Race"),
            tr("Run one prompt in several lanes at once. See which is faster, and if the text is the same."),
        )
        self.decisions = self._card(
            DECISIONS,
            tr("Decisions"),
            tr("Ask a question with fixed answers, and see how likely each answer is. One pass is enough."),
        )
        self._row = row_of((self.race, 1), (self.decisions, 1), spacing=GAP)
        self.show_column(label(tr("Lab"), "title"), label(purpose, "fact", wrap=True), Gap(8), self._row)

    def _card(self, page: str, title: str, hint: str) -> Card:
        made = Card(QWidget(), title, hint, tr("Go to {page}", page=title))
        made.clicked.connect(functools.partial(self.page_chosen.emit, page))
        return made

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:  # the size of all text was changed
            self._fit()

    def _fit(self) -> None:
        fits = min(self.viewport().width(), WIDTH) >= px(SIDE_BY_SIDE)
        self._row.setDirection(QBoxLayout.Direction.LeftToRight if fits else QBoxLayout.Direction.TopToBottom)

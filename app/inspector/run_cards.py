"""Runs to choose from, as cards under headings, in as many columns as fit. Runs are known by their keys only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QPushButton, QSizePolicy, QWidget

from app.design.controls import label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of
from app.inspector.run_pictures import PictureView, RunPicture
from app.system.i18n import tr

CARD_WIDTH = 300  # least pixels at 100 %
GAP = 12
MOST_COLUMNS = 3


class Offer(NamedTuple):
    """A run that can be opened. ``section`` is its heading. With ``has_picture`` room is kept for a picture."""

    title: str
    hint: str
    key: str
    section: str = ""
    has_picture: bool = False


class Card(QPushButton):
    """A button with a run's picture, if it has one, its title, and a line about it."""

    def __init__(self, offer: Offer, name: str) -> None:
        super().__init__()
        self.offer = offer
        self.setProperty("role", "card")
        self.setAccessibleName(name)
        self.setAccessibleDescription(offer.hint)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.title = label(offer.title, "card-title", wrap=True)
        self.hint = label(offer.hint, "card-hint", wrap=True)
        self.picture = PictureView()
        parts = (self.picture, self.title, self.hint, STRETCH)
        self._column = column_of(*parts, margins=(16, 12, 16, 12), spacing=4)
        self.setLayout(self._column)
        self.picture.setVisible(offer.has_picture)
        for part in (self.title, self.hint):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def sizeHint(self) -> QSize:
        width = max(self.width(), px(200))
        return QSize(width, self._column.totalHeightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(160), self._column.totalHeightForWidth(max(self.width(), px(160))))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()


def _opening(title: str) -> str:
    return tr("Open {title}", title=title)


class RunCards(QWidget):
    """Emits the key of the chosen run. ``name`` gives the accessible name of a card from its title."""

    chosen = Signal(str)

    def __init__(self, name: Callable[[str], str] = _opening, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self.cards: list[Card] = []
        self._pictures: dict[str, RunPicture] = {}
        self._offers: list[Offer] = []
        self._columns = 0
        self._host: QWidget | None = None
        self._column = column_of()
        self.setLayout(self._column)
        policy = self.sizePolicy()
        policy.setVerticalPolicy(QSizePolicy.Policy.Minimum)
        self.setSizePolicy(policy)

    def offer(self, offers: Sequence[Offer]) -> None:
        """Shows these runs as cards, in their sections."""
        if list(offers) != self._offers:
            self._offers = list(offers)
            self._build()

    @Slot(str, object)
    def show_picture(self, key: str, picture: RunPicture) -> None:
        """Shows the picture of a run on its cards."""
        self._pictures[key] = picture
        for card in self.cards:
            if card.offer.key == key:
                card.picture.set_picture(picture)

    def _build(self) -> None:
        if self._host is not None:
            self._column.removeWidget(self._host)
            self._host.hide()
            self._host.deleteLater()
        self._host = QWidget()
        self.cards = []
        column = column_of(spacing=GAP)
        self._host.setLayout(column)
        self._columns = self._fitting()
        for section in dict.fromkeys(offer.section for offer in self._offers):
            if section:
                column.addWidget(label(section, "title"))
            grid = QGridLayout()
            grid.setSpacing(GAP)
            for place in range(self._columns):
                grid.setColumnStretch(place, 1)
            for place, offer in enumerate(offer for offer in self._offers if offer.section == section):
                card = Card(offer, self._name(offer.title))
                card.picture.set_picture(self._pictures.get(offer.key))
                card.clicked.connect(self._choose)
                grid.addWidget(card, place // self._columns, place % self._columns)
                self.cards.append(card)
            for place in range(grid.count(), self._columns):  # so that cards have the same width in every section
                grid.addWidget(QWidget(), 0, place)
            column.addLayout(grid)
            column.addSpacing(GAP)
        self._column.addWidget(self._host)

    def _fitting(self) -> int:
        return max(1, min(MOST_COLUMNS, (self.width() + GAP) // (px(CARD_WIDTH) + GAP)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._offers and self._fitting() != self._columns:
            self._build()

    @Slot()
    def _choose(self) -> None:
        card = self.sender()
        if isinstance(card, Card):
            self.chosen.emit(card.offer.key)

"""Runs to choose from, as cards under headings, in as many columns as fit. Runs are known by their keys only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from app.design.card import Card
from app.design.controls import label
from app.design.fonts import px
from app.design.layouts import column_of
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


class RunCard(Card):
    """The card of a run, with its picture if it has one."""

    def __init__(self, offer: Offer, name: str) -> None:
        picture = PictureView()
        super().__init__(picture, offer.title, offer.hint, name)
        self.offer, self.picture = offer, picture
        picture.setVisible(offer.has_picture)


def _opening(title: str) -> str:
    return tr("Open {title}", title=title)


class RunCards(QWidget):
    """Emits the key of the chosen run. ``name`` gives the accessible name of a card from its title."""

    chosen = Signal(str)

    def __init__(self, name: Callable[[str], str] = _opening, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self.cards: list[RunCard] = []
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
                card = RunCard(offer, self._name(offer.title))
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
        if isinstance(card, RunCard):
            self.chosen.emit(card.offer.key)

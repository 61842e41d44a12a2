"""Runs to choose from, as cards under headings, in as many columns as fit. Runs are known by their keys only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QSizePolicy, QWidget

from app.design.card import Card
from app.design.controls import button, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.inspector.run_pictures import PictureView, RunPicture
from app.system.i18n import tr

CARD_WIDTH = 300  # least pixels at 100 %
GAP = 12
MOST_COLUMNS = 3
BLANK_HEIGHT = 84  # pixels at 100 %, as a card without a picture
FEW_ROWS = 2  # of cards in a folded section


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


class BlankCard(QFrame):
    """Holds the place of a card whose run is still being read."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "blank-card")
        self.setAccessibleName(tr("Being read"))
        self.setMinimumHeight(px(BLANK_HEIGHT))


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
        self._folded, self._waits = "", False
        self._is_whole = False  # the folded section was unfolded
        self._columns = 0
        self._host: QWidget | None = None
        self._column = column_of()
        self.setLayout(self._column)
        policy = self.sizePolicy()
        policy.setVerticalPolicy(QSizePolicy.Policy.Minimum)
        self.setSizePolicy(policy)

    def offer(self, offers: Sequence[Offer], *, folded: str = "", waits: bool = False) -> None:
        """Shows these runs as cards, in their sections.

        Args:
            folded: the section of which a few cards are shown, and the others at a button.
            waits: True if the runs of that section are still being read; blank cards are shown in their place.
        """
        if (list(offers), folded, waits) != (self._offers, self._folded, self._waits):
            self._offers, self._folded, self._waits = list(offers), folded, waits
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
        few = FEW_ROWS * self._columns
        sections = dict.fromkeys(offer.section for offer in self._offers)
        if self._waits:
            column.addLayout(self._heading(self._folded, 0))
            column.addLayout(self._grid([BlankCard() for _ in range(self._columns)]))
        for section in sections:
            offers = [offer for offer in self._offers if offer.section == section]
            hides = section == self._folded and bool(section) and not self._is_whole
            if section:
                column.addLayout(self._heading(section, len(offers) if hides and len(offers) > few else 0))
            cards = [self._card(offer) for offer in (offers[:few] if hides else offers)]
            self.cards += cards
            column.addLayout(self._grid(cards))
            column.addSpacing(GAP)
        self._column.addWidget(self._host)

    def _heading(self, section: str, count: int) -> QHBoxLayout:
        """Returns a section's title, with a button that shows all of its ``count`` runs; 0 for no button."""
        title = label(section, "title")
        if not count:
            return row_of(title, STRETCH)
        name = tr("Show all of your runs")
        return row_of(title, STRETCH, button(tr("All runs ({count})", count=count), name, clicked=self._unfold))

    def _card(self, offer: Offer) -> RunCard:
        card = RunCard(offer, self._name(offer.title))
        card.picture.set_picture(self._pictures.get(offer.key))
        card.clicked.connect(self._choose)
        return card

    def _grid(self, cards: Sequence[QWidget]) -> QGridLayout:
        grid = QGridLayout()
        grid.setSpacing(GAP)
        for place in range(self._columns):
            grid.setColumnStretch(place, 1)
        for place, card in enumerate(cards):
            grid.addWidget(card, place // self._columns, place % self._columns)
        for place in range(len(cards), self._columns):  # so that cards have the same width in every section
            grid.addWidget(QWidget(), 0, place)
        return grid

    @Slot()
    def _unfold(self) -> None:
        self._is_whole = True
        self._build()
        self.cards[0].setFocus()

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

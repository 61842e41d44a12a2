"""What the inspector shows without a run: what it is for, and runs to begin with. Knows runs by a key only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QEvent, QSize, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QPushButton, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from app.controls import button, label
from app.language import tr
from app.theme import px

CARD_WIDTH = 300  # pixels at 100 %, at least
CONTENT_WIDTH = 960
SIDE = 24


class Offer(NamedTuple):
    """A run that can be opened. ``section`` is the heading it stands under."""

    title: str
    hint: str
    key: str
    section: str = ""


class Card(QPushButton):
    """A run's title and a line about it; one button."""

    def __init__(self, offer: Offer) -> None:
        super().__init__()
        self.offer = offer
        self.setProperty("role", "card")
        self.setAccessibleName(tr("Open {title}", title=offer.title))
        self.setAccessibleDescription(offer.hint)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.title = label(offer.title, "card-title", wrap=True)
        self.hint = label(offer.hint, "card-hint", wrap=True)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(16, 12, 16, 12)
        self._column.setSpacing(4)
        for part in (self.title, self.hint):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            self._column.addWidget(part)
        self._column.addStretch(1)

    def sizeHint(self) -> QSize:
        width = max(self.width(), px(200))
        return QSize(width, self._column.totalHeightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(160), self._column.totalHeightForWidth(max(self.width(), px(160))))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()


class Welcome(QScrollArea):
    """Emits the key of the run that is chosen, or that a file is asked for."""

    chosen = Signal(str)
    file_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(tr("Inspector, nothing open"))
        self.cards: list[Card] = []
        self._offers: list[Offer] = []
        self._columns = 0
        self._host: QWidget | None = None
        self.open = button(tr("Open a trace…"), tr("Open a trace from a file"), role="primary")
        self.open.clicked.connect(self.file_asked)
        self._content = QWidget()
        self._column = QVBoxLayout(self._content)
        self._column.setContentsMargins(SIDE, 40, SIDE, 24)
        self._column.setSpacing(12)
        self._column.addWidget(label(tr("See why the text became what it is"), "display", wrap=True))
        self._column.addWidget(label(_introduction(), "lead", wrap=True))
        self._column.addWidget(label(_reading(), "caption", wrap=True))
        self._column.addSpacing(8)
        self._column.addWidget(self.open)
        self._column.addStretch(1)
        inside = QWidget()
        around = QGridLayout(inside)
        around.setContentsMargins(0, 0, 0, 0)
        around.setColumnStretch(0, 1)
        around.setColumnStretch(1, 1000)
        around.setColumnStretch(2, 1)
        around.addWidget(self._content, 0, 1)
        self._fit_width()
        self.setWidget(inside)

    def offer(self, offers: Sequence[Offer]) -> None:
        """Show these runs as cards, in their sections."""
        self._offers = list(offers)
        self._build()

    def _build(self) -> None:
        if self._host is not None:
            self._column.removeWidget(self._host)
            self._host.hide()
            self._host.deleteLater()
        self._host = QWidget()
        self.cards = []
        column = QVBoxLayout(self._host)
        column.setContentsMargins(0, 16, 0, 0)
        column.setSpacing(12)
        self._columns = self._fitting()
        for section in dict.fromkeys(offer.section for offer in self._offers):
            if section:
                column.addWidget(label(section, "title"))
            grid = QGridLayout()
            grid.setSpacing(12)
            for place in range(self._columns):
                grid.setColumnStretch(place, 1)
            for place, offer in enumerate(offer for offer in self._offers if offer.section == section):
                card = Card(offer)
                card.clicked.connect(self._choose)
                grid.addWidget(card, place // self._columns, place % self._columns)
                self.cards.append(card)
            for place in range(grid.count(), self._columns):  # so that cards are as wide in every section
                grid.addWidget(QWidget(), 0, place)
            column.addLayout(grid)
            column.addSpacing(12)
        self._column.insertWidget(self._column.count() - 1, self._host)

    def _fitting(self) -> int:
        room = min(self.viewport().width(), px(CONTENT_WIDTH)) - 2 * SIDE
        return max(1, min(3, (room + 12) // (px(CARD_WIDTH) + 12)))

    def _fit_width(self) -> None:
        self._content.setMaximumWidth(px(CONTENT_WIDTH))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_width()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._offers and self._fitting() != self._columns:
            self._build()

    @Slot()
    def _choose(self) -> None:
        card = self.sender()
        if isinstance(card, Card):
            self.chosen.emit(card.offer.key)


def _introduction() -> str:
    return tr(
        "A diffusion model writes by doubt: all places at once, from noise, accepting what it is sure of and throwing "
        "the rest away. The inspector goes through a run step by step, forwards and backwards, and no model is needed."
    )


def _reading() -> str:
    return tr(
        "Pick a cell to read its history. The plots say when the model became sure, the filmstrip shows the blocks. "
        "Space plays, the left and right arrows go from frame to frame, with Shift to the next change of the cell."
    )

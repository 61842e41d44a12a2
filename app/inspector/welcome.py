"""What the inspector shows without a run: what it is for, and runs to begin with. Knows runs by a key only."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QVBoxLayout, QWidget

from app.design.controls import button, label
from app.design.fonts import px
from app.inspector.run_cards import Card, Offer, RunCards
from app.system.i18n import tr

CONTENT_WIDTH = 960  # pixels at 100 %
SIDE = 24


class InspectorWelcome(QScrollArea):
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
        self.runs = RunCards()
        self.runs.chosen.connect(self.chosen)
        self.open = button(tr("Open a trace…"), tr("Open a trace from a file"), role="primary")
        self.open.clicked.connect(self.file_asked)
        self._content = QWidget()
        column = QVBoxLayout(self._content)
        column.setContentsMargins(SIDE, 40, SIDE, 24)
        column.setSpacing(12)
        column.addWidget(label(tr("See why the text became what it is"), "display", wrap=True))
        column.addWidget(label(_introduction(), "lead", wrap=True))
        column.addWidget(label(_reading(), "caption", wrap=True))
        column.addSpacing(8)
        column.addWidget(self.open)
        column.addSpacing(16)
        column.addWidget(self.runs)
        column.addStretch(1)
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
        self.runs.offer(offers)

    @property
    def cards(self) -> list[Card]:
        """What can be chosen, in order."""
        return self.runs.cards

    def _fit_width(self) -> None:
        self._content.setMaximumWidth(px(CONTENT_WIDTH))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_width()


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

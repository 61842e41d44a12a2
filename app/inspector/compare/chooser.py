"""The runs that another can be compared with, as cards to choose from. Knows runs by a key only."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.design.controls import button, label
from app.design.fonts import px
from app.inspector.run_cards import RunCards
from app.system.i18n import tr

CONTENT_WIDTH = 960  # pixels at 100 %


class RunChooser(QScrollArea):
    """Cards, a button for a file, and one to go back to the comparison that there is."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = RunCards(lambda title: tr("Compare with {title}", title=title))
        self.open_file = button(tr("Open a file…"), tr("Compare with a run from a file"), role="plain")
        self.back = button(tr("Back to the comparison"))
        self.back.hide()
        self._content = QWidget()
        column = QVBoxLayout(self._content)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(12)
        column.addWidget(label(tr("Compare with another run"), "title", wrap=True))
        column.addWidget(label(_introduction(), wrap=True))
        buttons = QHBoxLayout()
        buttons.setSpacing(16)
        buttons.addWidget(self.open_file)
        buttons.addWidget(self.back)
        buttons.addStretch(1)
        column.addLayout(buttons)
        column.addSpacing(8)
        column.addWidget(self.runs)
        column.addStretch(1)
        inside = QWidget()
        around = QGridLayout(inside)
        around.setContentsMargins(0, 0, 0, 0)
        around.setColumnStretch(0, 1)
        around.setColumnStretch(1, 1000)
        around.setColumnStretch(2, 1)
        around.addWidget(self._content, 0, 1)
        self._content.setMaximumWidth(px(CONTENT_WIDTH))
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(inside)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:  # the size of all text was changed
            self._content.setMaximumWidth(px(CONTENT_WIDTH))


def _introduction() -> str:
    return tr(
        "Both runs stand side by side and go through their steps together: another seed, one setting "
        "changed, a fork, the model with an adapter and without. Cells that differ are marked."
    )

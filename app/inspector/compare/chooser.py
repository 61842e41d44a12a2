"""The runs that another can be compared with, as cards to choose from. Knows runs by a key only."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout

from app.design.controls import button, label
from app.inspector.run_cards import RunCards
from app.inspector.run_page import RunPage
from app.system.i18n import tr


class RunChooser(RunPage):
    """Cards, a button for a file, and one to go back to the comparison that there is."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = RunCards(lambda title: tr("Compare with {title}", title=title))
        self.open_file = button(tr("Open a file…"), tr("Compare with a run from a file"), role="plain")
        self.back = button(tr("Back to the comparison"))
        self.back.hide()
        column = self.column
        column.setContentsMargins(24, 24, 24, 24)
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


def _introduction() -> str:
    return tr(
        "Both runs stand side by side and go through their steps together: another seed, one setting "
        "changed, a fork, the model with an adapter and without. Cells that differ are marked."
    )

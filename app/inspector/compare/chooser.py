"""The page to choose the run for a comparison, as cards. Runs are known by their keys only."""

from __future__ import annotations

from app.design.controls import button, label
from app.design.layouts import STRETCH, row_of
from app.inspector.run_cards import RunCards, RunPage
from app.system.i18n import tr


class RunChooser(RunPage):
    """Cards of runs, a button to open a file, and a button back to the present comparison."""

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
        buttons = row_of(self.open_file, self.back, STRETCH, spacing=16)
        column.addLayout(buttons)
        column.addSpacing(8)
        column.addWidget(self.runs)
        column.addStretch(1)
        self.show_column()


def _introduction() -> str:
    return tr(
        "Both runs stand side by side and go through their steps together: another seed, one setting "
        "changed, a fork, the model with an adapter and without. Cells that differ are marked."
    )

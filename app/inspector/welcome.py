"""The inspector's page without a run: an introduction, and runs to open. Runs are known by their keys only."""

from __future__ import annotations

from app.design.controls import button, label
from app.inspector.run_cards import RunCards, RunPage
from app.system.i18n import tr

SIDE = 24


class InspectorWelcome(RunPage):
    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Inspector, nothing open"))
        self.runs = RunCards()
        self.open = button(tr("Open a trace…"), tr("Open a trace from a file"), role="primary")
        column = self.column
        column.setContentsMargins(SIDE, 40, SIDE, 24)
        column.addWidget(label(tr("See why the text became what it is"), "display", wrap=True))
        column.addWidget(label(_introduction(), "lead", wrap=True))
        column.addWidget(label(_reading(), "caption", wrap=True))
        column.addSpacing(8)
        column.addWidget(self.open)
        column.addSpacing(16)
        column.addWidget(self.runs)
        column.addStretch(1)
        self.show_column()


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

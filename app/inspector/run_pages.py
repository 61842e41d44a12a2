"""Pages of runs to choose from: the inspector's without a run, and a comparison's. They know keys only."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot

from app.design import themes
from app.design.column_page import ColumnPage
from app.design.controls import button, label
from app.design.fonts import px
from app.design.layouts import STRETCH, Gap, row_of
from app.inspector.run_cards import RunCards
from app.system.i18n import tr

CONTENT_WIDTH = 960  # pixels at 100 %


class RunPage(ColumnPage):
    """The base of pages of runs to choose from. Its column grows with the size of text."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        themes.changed.connect(self._fit_width)
        self._fit_width()

    @Slot()
    def _fit_width(self) -> None:
        self._inside.setMaximumWidth(px(CONTENT_WIDTH))


class InspectorWelcome(RunPage):
    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Inspector, nothing open"))
        self.runs = RunCards()
        self.open = button(tr("Open a file…"), tr("Open a recorded run from a file"), role="plain")
        title = label(tr("See why the text became what it is"), "display", wrap=True)
        texts = (title, label(_introduction(), "lead", wrap=True), label(_reading(), "caption", wrap=True))
        self.show_column(*texts, Gap(8), self.open, Gap(16), self.runs, margins=(24, 40, 24, 24), spacing=12)


def _introduction() -> str:
    return tr(
        "A diffusion model begins with random tokens and decides all places at once, in steps: it keeps what it is "
        "sure of and tries the rest again. Go through a recorded run step by step, both ways. No model is needed."
    )


def _reading() -> str:
    return tr(
        "Choose a cell to see its history. Space plays; the left and right arrows go a step, with Shift to the next "
        "change of the cell."
    )


class RunChooser(RunPage):
    """Cards of runs, a button to open a file, and a button back to the present comparison."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = RunCards(lambda title: tr("Compare with {title}", title=title))
        self.open_file = button(tr("Open a file…"), tr("Compare with a run from a file"), role="plain")
        self.back = button(tr("Back to the comparison"))
        self.back.hide()
        texts = label(tr("Compare with another run"), "title", wrap=True), label(_comparing(), wrap=True)
        buttons = row_of(self.open_file, self.back, STRETCH, spacing=16)
        self.show_column(*texts, buttons, Gap(8), self.runs, margins=(24, 24, 24, 24), spacing=12)


def _comparing() -> str:
    return tr(
        "Both runs are shown side by side and go through their steps together. Cells that differ are marked. "
        "Choose one with another seed, another setting, a change, or another adapter."
    )

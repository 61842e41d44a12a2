"""A row of a lane's figures, each number above its unit."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel, QWidget

from app.design.controls import label
from app.design.layouts import boxed, column_of, row_of
from app.race.words import UNKNOWN
from app.state.intervals import percent
from app.state.race.running import LaneFigures
from app.system.i18n import tr


class FigureRow(QWidget):
    """Tokens, forwards, tokens per forward and seconds; from the second lane on also agreement."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._row = row_of(spacing=8)
        self.setLayout(self._row)
        self.tokens = self._add(tr("tokens"), tr("Written so far; of a block under way, those that are accepted"))
        self.forwards = self._add(tr("forwards"), tr("Passes behind the prompt, those that only commit text included"))
        self.ratio = self._add(tr("per forward"), tr("Tokens per forward"))
        self.seconds = self._add(tr("seconds"), tr("Of this lane alone, without the prompt and the others' turns"))
        self.agreement = self._add(tr("as lane 1"), tr("The share of the text's characters that lane 1 has, too"))
        self.show_figures(LaneFigures())
        self.show_agreement(None)

    def _add(self, unit: str, tip: str) -> QLabel:
        made = label(UNKNOWN, "figure")
        made.setAccessibleName(unit)
        made.setToolTip(tip)
        made.setAccessibleDescription(tip)
        below = label(unit, "caption")
        below.setToolTip(tip)
        cell = boxed(column_of(made, below, spacing=0))
        self._row.addWidget(cell, 1)
        return made

    def set_first(self, is_first: bool) -> None:
        """Hides the agreement of the first lane. Its space stays, so that columns line up across lanes."""
        cell = self.agreement.parentWidget()
        assert cell is not None
        policy = cell.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        cell.setSizePolicy(policy)
        cell.setVisible(not is_first)

    def show_figures(self, figures: LaneFigures) -> None:
        """Shows the lane's tokens, forwards, tokens per forward and seconds."""
        per = figures.tokens_per_forward
        for cell, text in (
            (self.tokens, f"{figures.tokens:,}"),
            (self.forwards, f"{figures.forwards:,}"),
            (self.ratio, UNKNOWN if per is None else f"{per:.2f}"),
            (self.seconds, f"{figures.seconds:.3f}"),
        ):
            if text != cell.text():
                cell.setText(text)

    def show_agreement(self, share: float | None) -> None:
        """Shows the agreement with the first lane's text, 0 to 1; None while it is not known."""
        self.agreement.setText(percent(share))

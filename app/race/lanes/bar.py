"""A row of chips: one for each lane, and one that adds a lane. Knows no models."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QPushButton, QWidget

from app.design.controls import FlowLayout, button
from app.system.i18n import tr
from engine.service.requests import MOST_LANES

GAP = 8


class LaneBar(QWidget):
    """The chips. The fields of a lane are open while its chip is checked."""

    chosen = Signal(int)  # lane index, -1 for none
    add_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Lanes"))
        flow = FlowLayout(self, GAP)
        self.chips = [button("", role="chip") for _ in range(MOST_LANES)]
        for chip in self.chips:
            chip.setCheckable(True)
            chip.clicked.connect(self._press)
            flow.addWidget(chip)
        self.add = button(tr("+ Lane"), tr("Add a lane"), role="chip", tip=tr("The last lane once more, to be changed"))
        self.add.clicked.connect(self.add_asked)
        flow.addWidget(self.add)

    def show_lanes(self, titles: Sequence[str], tips: Sequence[str], chosen: int, *, can_add: bool) -> None:
        """Shows a chip for each title; ``chosen`` is the lane whose fields are open, -1 for none."""
        for chip in self.chips[len(titles) :]:
            chip.hide()
        for place, (chip, title, tip) in enumerate(zip(self.chips, titles, tips, strict=False)):
            chip.setText(tr("{number}  {title}", number=place + 1, title=title))
            chip.setAccessibleName(tr("Lane {number}: {title}", number=place + 1, title=title))
            chip.setToolTip(tip)
            chip.setAccessibleDescription(tip)
            chip.setChecked(place == chosen)
            chip.show()
        self.add.setVisible(can_add)
        self.updateGeometry()

    @Slot()
    def _press(self) -> None:
        chip = self.sender()
        assert isinstance(chip, QPushButton)
        self.chosen.emit(self.chips.index(chip) if chip.isChecked() else -1)

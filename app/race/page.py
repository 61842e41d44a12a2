"""The widget of the Race page: the lanes, and below them the prompt and its race. Has no engine."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QWidget

from app.design.controls import chain_tabs
from app.design.layouts import column_of
from app.race.lanes import LaneChooser
from app.race.view import OneRace
from app.system.i18n import tr


class RacePage(QWidget):
    """The page."""

    def __init__(self, lanes: LaneChooser) -> None:
        super().__init__()
        self.setObjectName("race")
        self.setAccessibleName(tr("Race"))
        self.one = OneRace(lanes)
        self.setLayout(column_of(self.one))
        boxes = [part for row in lanes.rows for part in (row.model, row.decoder, row.adapter, row.remove)]
        chain_tabs(boxes[0], (*boxes[1:], lanes.add, self.one.field, self.one.race, self.one.stop))

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)

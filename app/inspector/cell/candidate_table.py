"""A table of the likeliest tokens of one position at one step. Holds plain texts only."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QSizePolicy, QTableWidget, QTableWidgetItem, QWidget

from app.design import themes
from app.design.fonts import px
from app.system.i18n import tr


class CandidateTable(QTableWidget):
    """The likeliest tokens at one step, with rank, probability and fate."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, 4, parent)
        self.setHorizontalHeaderLabels([tr("rank"), tr("token"), tr("probability"), tr("at this step")])
        self.setAccessibleName(tr("Candidates at this step"))
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setHighlightSections(False)
        header.setStretchLastSection(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        themes.changed.connect(self._fit)
        self._fit()

    def set_rows(self, rows: Sequence[tuple[str, str, str, str]]) -> None:
        """Shows rows of rank, token, probability, and the token's fate at the step. Writes only the changed cells."""
        if self.rowCount() != len(rows):
            self.setRowCount(len(rows))
            self.updateGeometry()
        for place, row in enumerate(rows):
            for column, text in enumerate(row):
                item = self.item(place, column)
                if item is None:
                    item = QTableWidgetItem(text)
                    item.setToolTip(text)
                    self.setItem(place, column, item)
                elif item.text() != text:
                    item.setText(text)
                    item.setToolTip(text)

    def rows(self) -> list[tuple[str, ...]]:
        """Returns the texts of all rows."""
        return [
            tuple(item.text() if (item := self.item(row, column)) else "" for column in range(4))
            for row in range(self.rowCount())
        ]

    @Slot()
    def _fit(self) -> None:
        self.verticalHeader().setDefaultSectionSize(px(26))
        self.verticalHeader().setMinimumSectionSize(px(20))
        self._share_width()

    def _share_width(self) -> None:
        rank = px(52)
        rest = max(self.viewport().width() - rank, px(180))
        for column, width in enumerate((rank, 0.32 * rest, 0.29 * rest)):  # the last column takes the rest
            self.setColumnWidth(column, round(width))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_width()

    def sizeHint(self) -> QSize:
        return QSize(px(380), px(34) + max(self.rowCount(), 4) * px(26))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(240), px(34) + 3 * px(26))

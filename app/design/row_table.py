"""A table in which one row at a time is chosen. Knows nothing of what the rows mean."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QEvent, QItemSelection, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from app.design.fonts import TEXT_SMALL, px, ui_font

ROW_HEIGHT = 28  # pixels at 100 %
STYLE = """
QTableView::item { padding: 0 8px; }
QHeaderView::section:vertical { border: none; }
QAbstractScrollArea::corner { background: transparent; border: none; }
"""


class RowTable(QTableView):
    """Emits ``chosen`` with the row, -1 for none. A subclass calls ``fit`` after its construction."""

    chosen = Signal(int)

    def __init__(self, rows: QAbstractItemModel, name: str) -> None:
        super().__init__()
        self.setModel(rows)
        self.setAccessibleName(name)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setStyleSheet(STYLE)
        self.horizontalHeader().setHighlightSections(False)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)

    def row_at(self, place: int) -> int:
        """Returns the model's row at a row of the view."""
        return place

    def selectionChanged(self, selected: QItemSelection, deselected: QItemSelection) -> None:
        super().selectionChanged(selected, deselected)
        rows = self.selectionModel().selectedRows()
        self.chosen.emit(self.row_at(rows[0].row()) if rows else -1)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.fit()

    def fit(self) -> None:
        """Applies the user's text size."""
        font = ui_font()
        font.setPixelSize(px(TEXT_SMALL + 1))
        for part in (self, self.horizontalHeader(), self.verticalHeader()):
            if part.font() != font:
                part.setFont(font)
        self.verticalHeader().setDefaultSectionSize(px(ROW_HEIGHT))

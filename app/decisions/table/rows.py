"""The view of a table's rows: a click on a heading sorts them, and one row is chosen at a time."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt, Signal, Slot
from PySide6.QtWidgets import QAbstractItemView

from app.decisions.table.model import RowsModel
from app.design.fonts import px
from app.design.row_table import RowTable
from app.state.decisions.board import SortKey
from app.system.i18n import tr

LEAST_WIDTH, CELL_WIDTH, STATE_WIDTH = 64, 160, 360  # pixels at 100 %
MEASURED = 20  # rows that a column's width is computed from


class RowsView(RowTable):
    """The view. ``chosen`` emits the index of the table's row, -1 for none."""

    sort_asked = Signal(object)  # a SortKey, None for the table's own order

    def __init__(self) -> None:
        self.rows = RowsModel()
        super().__init__(self.rows, tr("Rows"))
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.horizontalHeader().setResizeContentsPrecision(MEASURED)
        header = self.horizontalHeader()
        header.setSectionsClickable(True)
        header.setSortIndicatorShown(True)
        header.setSortIndicatorClearable(True)  # the third click goes back to the table's own order
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        header.sectionClicked.connect(self._sort)
        self.fit()

    def arrange_columns(self, state: int, own: int) -> None:
        """Orders and sizes the columns of a new table: the states, then the answers, then its other columns.

        Args:
            state: Index of the column of the states; -1 for none.
            own: Number of the table's own columns.
        """
        header = self.horizontalHeader()
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        columns = range(self.rows.columnCount())
        first = [state] if 0 <= state < own else []
        order = [*first, *columns[own:], *(column for column in columns[:own] if column not in first)]
        for place, column in enumerate(order):
            header.moveSection(header.visualIndex(column), place)
            needed = max(self.sizeHintForColumn(column), header.sectionSizeHint(column))
            most = STATE_WIDTH if column == state else CELL_WIDTH
            self.setColumnWidth(column, min(max(needed, px(LEAST_WIDTH)), px(most)))

    @property
    def key(self) -> SortKey | None:
        """The key that the rows are sorted by; None for the table's own order."""
        header = self.horizontalHeader()
        column = header.sortIndicatorSection()
        if not 0 <= column < self.rows.columnCount():
            return None
        return self.rows.key_of(column, is_falling=header.sortIndicatorOrder() == Qt.SortOrder.DescendingOrder)

    @Slot(int)
    def _sort(self, _column: int) -> None:
        self.sort_asked.emit(self.key)

    def row_at(self, place: int) -> int:
        return self.rows.row_at(place)

    def choose(self, place: int) -> None:
        """Selects the row at a place of the view; -1 for none."""
        first = self.horizontalHeader().logicalIndex(0)
        self.setCurrentIndex(self.rows.index(place, first) if place >= 0 else QModelIndex())

"""The rows of a table: a Qt model that makes the texts of visible cells only, and its view, where one row is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal, Slot
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QAbstractItemView

from app.decisions import words
from app.design import themes
from app.design.fonts import TEXT_SMALL, px, ui_font
from app.design.row_table import RowTable
from app.design.tokens import color
from app.state.decisions.board import NONE, Order, RowBoard, SortKey
from app.state.run.answers import share_words
from app.system.i18n import tr
from engine.tasks.decisions.table import CsvTable

LONGEST = 160  # characters of a cell
LONGEST_TIP = 2_000  # characters of a tooltip
RIGHT, WRONG = "✓", "✗"

Index = QModelIndex | QPersistentModelIndex
NOWHERE = QModelIndex()


class RowsModel(QAbstractTableModel):
    """The table's own columns, then answer and confidence for each question; rows as ``show_order`` says."""

    def __init__(self) -> None:
        super().__init__()
        self._table: CsvTable | None = None
        self._board: RowBoard | None = None
        self._order: Order = np.zeros(0, dtype=np.int64)

    def show_table(self, table: CsvTable | None, board: RowBoard | None) -> None:
        """Shows another table, with its answers or without; all rows, in their own order."""
        self.beginResetModel()
        self._table, self._board = table, board
        self._order = np.arange(0 if table is None else len(table.rows), dtype=np.int64)
        self.endResetModel()

    def show_board(self, board: RowBoard) -> None:
        """Shows the same answers at another temperature."""
        self._board = board
        self.refresh()

    def show_order(self, order: Order) -> None:
        """Shows only these rows, in this order."""
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        rows = {row: np.flatnonzero(order == row) for row in {self.row_at(index.row()) for index in before}}
        places = [rows[self.row_at(index.row())] for index in before]
        self._order = order
        after = [
            self.index(int(place[0]), index.column()) if len(place) else QModelIndex()
            for place, index in zip(places, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def refresh(self, first: int = 0, last: int = -1) -> None:
        """Redraws the answers between two places of the view; by default all of them."""
        if len(self._order) and self._table is not None:
            end = self.index(last if last >= 0 else len(self._order) - 1, self.columnCount() - 1)
            self.dataChanged.emit(self.index(first, len(self._table.columns)), end)

    def row_at(self, place: int) -> int:
        """Returns the index of the table's row at a place of the view; -1 outside."""
        return int(self._order[place]) if 0 <= place < len(self._order) else -1

    def key_of(self, column: int, *, is_falling: bool) -> SortKey:
        """Returns the sort key of a column."""
        own = 0 if self._table is None else len(self._table.columns)
        if column < own:
            return SortKey("cell", column, is_falling)
        question, part = divmod(column - own, 2)
        return SortKey("confidence" if part else "answer", question, is_falling)

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._order)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        if parent.isValid() or self._table is None:
            return 0
        return len(self._table.columns) + 2 * len(self._questions)

    @property
    def _questions(self) -> Sequence[Any]:
        return () if self._board is None else self._board.questions

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        is_row = orientation == Qt.Orientation.Vertical
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignVCenter | (Qt.AlignmentFlag.AlignRight if is_row else self._side(section))
        if role != Qt.ItemDataRole.DisplayRole or self._table is None:
            return None
        if is_row:
            return str(self._table.rows[self.row_at(section)].number)
        own = len(self._table.columns)
        if section < own:
            return _one_line(self._table.columns[section]) or words.UNKNOWN
        question, part = divmod(section - own, 2)
        return tr("confidence") if part else tr("{name}: answer", name=self._questions[question].name)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if self._table is None or not index.isValid():
            return None
        row, column = self.row_at(index.row()), index.column()
        own = len(self._table.columns)
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return _one_line(self._table.rows[row].cells[column]) if column < own else self._text(row, column - own)
            case Qt.ItemDataRole.ToolTipRole:
                return self._table.rows[row].cells[column][:LONGEST_TIP] if column < own else self._problem(row)
            case Qt.ItemDataRole.TextAlignmentRole:
                return Qt.AlignmentFlag.AlignVCenter | self._side(column)
            case Qt.ItemDataRole.ForegroundRole:
                return self._ink(row, column - own)
            case Qt.ItemDataRole.FontRole if column >= own and (column - own) % 2 == 0:
                return _bold(px(TEXT_SMALL + 1))
        return None

    def _side(self, column: int) -> Qt.AlignmentFlag:
        own = 0 if self._table is None else len(self._table.columns)
        is_number = column >= own and (column - own) % 2 == 1
        return Qt.AlignmentFlag.AlignRight if is_number else Qt.AlignmentFlag.AlignLeft

    def _text(self, row: int, place: int) -> str:
        board = self._board
        if board is None or board.outcomes[row] is None:
            return ""
        question, part = divmod(place, 2)
        best = int(board.best[row, question])
        if best == NONE:
            return words.UNKNOWN if part else tr("not decided")
        if part:
            return share_words(float(board.confidence[row, question]))
        mark = RIGHT if board.is_right(row, question) else WRONG if board.is_wrong(row, question) else ""
        return " ".join(filter(None, (mark, words.answer_name(board.questions[question], best))))

    def _problem(self, row: int) -> str | None:
        outcome = None if self._board is None else self._board.outcomes[row]
        return tr(outcome.problem) if outcome is not None and outcome.problem else None

    def _ink(self, row: int, place: int) -> QColor | None:
        board = self._board
        if board is None or place < 0 or board.outcomes[row] is None:
            return None
        question, part = divmod(place, 2)
        if not part:
            return color(themes.current().conflict) if board.is_wrong(row, question) else None
        return color(themes.current().accepted if board.in_doubt[row, question] else themes.current().ink)


def _one_line(text: str) -> str:
    return " ".join(text[: 2 * LONGEST].split())[:LONGEST]


@lru_cache(maxsize=1)
def _bold(pixels: int) -> QFont:
    font = ui_font()
    font.setPixelSize(pixels)
    font.setBold(True)
    return font


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

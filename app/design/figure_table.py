"""A table of figures, as high as its rows: a column of names, then numbers. Knows nothing of their meaning."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QSizePolicy, QTableWidget, QTableWidgetItem, QWidget

from app.design.fonts import TEXT_SMALL, px, ui_font

ROW_HEIGHT = 44  # pixels at 100 %, for two lines
SCROLL_BAR = 12  # pixels of height, for a table that scrolls sideways
LEAST_NAME = 140  # pixels at 100 %, of the column of names; in a narrower table the numbers scroll
STYLE = """
QTableView::item { padding: 0 8px; }
QAbstractScrollArea::corner { background: transparent; border: none; }
"""


class FigureTable(QTableWidget):
    """Shows rows of texts of up to two lines under headings. The first column holds names, which wrap."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, 0, parent)
        self._heads: list[tuple[str, str]] = []
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setWordWrap(True)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setHighlightSections(False)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setStyleSheet(STYLE)
        self._fit()

    def show_figures(self, heads: list[tuple[str, str]], rows: Sequence[tuple[str, ...]]) -> None:
        """Shows rows. Only cells that differ are written, so that a selection stays.

        Args:
            heads: the title of each column and its explanation.
        """
        if heads != self._heads:
            self._name_columns(heads)
        if self.rowCount() != len(rows):
            self.setRowCount(len(rows))
            self.updateGeometry()
        for place, row in enumerate(rows):
            for column, text in enumerate(row):
                self._write(place, column, text)
        self._share_width()

    def texts(self) -> list[tuple[str, ...]]:
        return [
            tuple(item.text() if (item := self.item(row, column)) else "" for column in range(self.columnCount()))
            for row in range(self.rowCount())
        ]

    def _name_columns(self, columns: list[tuple[str, str]]) -> None:
        self._heads = columns
        self.clear()
        self.setColumnCount(len(columns))
        for column, (head, meaning) in enumerate(columns):
            item = QTableWidgetItem(head)
            item.setToolTip(meaning)
            item.setTextAlignment(self._alignment(column))
            self.setHorizontalHeaderItem(column, item)

    def _write(self, place: int, column: int, text: str) -> None:
        item = self.item(place, column)
        if item is None:
            item = QTableWidgetItem()
            item.setTextAlignment(self._alignment(column))
            self.setItem(place, column, item)
        if item.text() != text:
            item.setText(text)
        if column == 0:
            item.setToolTip(text)  # the text may be elided

    def _alignment(self, column: int) -> Qt.AlignmentFlag:
        side = Qt.AlignmentFlag.AlignLeft if column == 0 else Qt.AlignmentFlag.AlignRight
        return side | Qt.AlignmentFlag.AlignVCenter

    def _share_width(self) -> None:
        """Gives number columns the width they need and the names the rest, with a minimum; below that it scrolls."""
        needed = [max(self.sizeHintForColumn(c), self.horizontalHeader().sectionSizeHint(c)) for c in self._columns]
        left = self.viewport().width() - sum(needed) + (needed[0] if needed else 0)
        for column in self._columns:
            least = min(needed[column], px(LEAST_NAME))
            self.setColumnWidth(column, max(least, left) if column == 0 else needed[column])

    @property
    def _columns(self) -> range:
        return range(self.columnCount())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_width()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit()

    def _fit(self) -> None:
        font = ui_font()
        font.setPixelSize(px(TEXT_SMALL + 1))
        for part in (self, self.horizontalHeader()):
            if part.font() != font:
                part.setFont(font)
        self.verticalHeader().setDefaultSectionSize(px(ROW_HEIGHT))
        self._share_width()
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        header = self.horizontalHeader().sizeHint().height()
        rows = max(self.rowCount(), 1)
        return QSize(px(480), header + rows * px(ROW_HEIGHT) + SCROLL_BAR + 4)  # the last pixels are for the frame

    def minimumSizeHint(self) -> QSize:
        return QSize(px(240), self.sizeHint().height())

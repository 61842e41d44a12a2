"""The cells of the current frame as a table of words, for screen readers and for those who prefer lists."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt, Slot
from PySide6.QtGui import QKeyEvent, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from app.canvas.words import STATE_WORDS, token_words
from app.inspector.words import capital
from app.player.player import NOTHING, Player
from app.state.run.canvas import BlockState, CellState
from app.system.i18n import tr

_NO_PARENT = QModelIndex()
TOKEN, STATE, ENTROPY, ACCEPTED, REMELTS = range(5)
NUMBERS = (ENTROPY, ACCEPTED, REMELTS)


class CellsModel(QAbstractTableModel):
    """A table model with one row for each position of the block."""

    def __init__(self, player: Player, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._player = player
        self._block: BlockState | None = None
        self._tokens: list[int] = []
        self._states: list[int] = []

    def show_frame(self) -> None:
        """Loads the current frame."""
        before = len(self._tokens)
        block = self._player.snapshot
        count = 0 if block is None else block.length
        if count != before:
            self.beginResetModel()
        self._block = block
        self._tokens = [] if block is None else block.tokens(calm=self._player.calm).tolist()
        self._states = [] if block is None else block.states(calm=self._player.calm).tolist()
        if count != before:
            self.endResetModel()
        elif count:
            self.dataChanged.emit(self.index(0, 0), self.index(count - 1, REMELTS))

    def rowCount(self, parent: QModelIndex = _NO_PARENT) -> int:  # type: ignore[override]
        return 0 if parent.isValid() else len(self._tokens)

    def columnCount(self, parent: QModelIndex = _NO_PARENT) -> int:  # type: ignore[override]
        return 0 if parent.isValid() else REMELTS + 1

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.TextAlignmentRole and orientation == Qt.Orientation.Horizontal:
            side = Qt.AlignmentFlag.AlignRight if section in NUMBERS else Qt.AlignmentFlag.AlignLeft
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        if orientation == Qt.Orientation.Vertical:
            return str(section)
        return (tr("Token"), tr("State"), tr("Entropy, nats"), tr("Steps accepted"), tr("Times taken back"))[section]

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:  # type: ignore[override]
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(index.row(), index.column())
        if role == Qt.ItemDataRole.AccessibleTextRole and index.column() == TOKEN:
            row = index.row()
            return tr(
                "{cell}: {text}, {state}",
                cell=capital(self._player.name_of(row)),
                text=self._text(row, TOKEN),
                state=self._text(row, STATE),
            )
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() in NUMBERS:
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        return None

    def _text(self, row: int, column: int) -> str:
        block = self._block
        if block is None or not 0 <= row < len(self._tokens):
            return ""
        match column:
            case 0 if self._states[row] == CellState.MASKED:
                return tr("nothing yet")
            case 0:
                return token_words(self._player.piece(self._tokens[row]))
            case 1:
                return tr(STATE_WORDS[CellState(self._states[row])])
            case 2:
                entropy = block.cell(row, calm=False).entropy
                return tr("not known") if entropy is None else f"{entropy:.3f}"
            case 3:
                return str(block.accepted_steps[row])
        return str(block.remelts[row])


class CellsTable(QTableView):
    """The table. Its current row and the selected cell follow each other. Updated only while it is visible."""

    def __init__(self, player: Player, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._player = player
        self.cells = CellsModel(player, self)
        self.setModel(self.cells)
        self.setAccessibleName(tr("Cells as a table"))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.horizontalHeader().setStretchLastSection(True)
        self.horizontalHeader().setHighlightSections(False)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        player.opened.connect(self.refresh)
        player.grown.connect(self.refresh)
        player.placed.connect(self.refresh)
        player.selected.connect(self._on_selected)
        self.selectionModel().currentRowChanged.connect(self._on_current)

    @Slot()
    def refresh(self) -> None:
        """Loads the current frame if the table is visible."""
        if self.isVisible():
            self.cells.show_frame()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.cells.show_frame()
        self._on_selected(self._player.selection)

    @Slot(int)
    def _on_selected(self, position: int) -> None:
        if not self.isVisible() or position == self.currentIndex().row():
            return
        if position == NOTHING or position >= self.cells.rowCount():
            self.clearSelection()
        else:
            self.selectRow(position)

    @Slot(QModelIndex, QModelIndex)
    def _on_current(self, current: QModelIndex, _previous: QModelIndex) -> None:
        if current.isValid():
            self._player.select(current.row())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        # The table handles Up, Down, Page Up and Page Down; the page handles all other keys.
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            super().keyPressEvent(event)
        else:
            event.ignore()

"""The list model: headers of groups, and conversations. Knows nothing of painting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from app.library import Summary
from app.library.listing import group
from app.system.i18n import tr

Index = QModelIndex | QPersistentModelIndex
Row = Summary | str  # a conversation, or the title of a group
LONGEST = 300  # characters of a title that are used; no row is as wide
NO_INDEX = QModelIndex()


def shown_title(summary: Summary) -> str:
    """Returns a title in one line, never empty."""
    return " ".join(summary.title[:LONGEST].split()) or tr("Untitled")


class ConversationRows(QAbstractListModel):
    """The list model; emits ``renamed(id, title)`` when a title was edited, and changes the row at once."""

    renamed = Signal(int, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.rows: list[Row] = []
        self.current: int | None = None  # the conversation that is open
        self._places: dict[int, int] = {}

    def show(self, summaries: Sequence[Summary], current: int | None, now: float) -> None:
        """Replaces all rows; does nothing if they are equal."""
        rows: list[Row] = []
        for part in group(summaries, now):
            rows += [part.title, *part.summaries]
        if rows == self.rows and current == self.current:
            return
        self.beginResetModel()
        self.rows, self.current = rows, current
        self._places = {row.id: place for place, row in enumerate(rows) if isinstance(row, Summary)}
        self.endResetModel()

    def summary(self, index: Index) -> Summary | None:
        """Returns the conversation of a row; None for a header or an invalid index."""
        row = self.rows[index.row()] if index.isValid() else ""
        return row if isinstance(row, Summary) else None

    def index_of(self, id: int | None) -> QModelIndex:
        """Returns the index of a conversation; invalid if it is not shown."""
        place = self._places.get(-1 if id is None else id)
        return QModelIndex() if place is None else self.index(place)

    def nearest(self, row: int) -> QModelIndex:
        """Returns the conversation at a row, or else the next one, or else the last."""
        places = self._places.values()
        if not places:
            return QModelIndex()
        return self.index(next((place for place in places if place >= row), max(places)))

    def rowCount(self, parent: Index = NO_INDEX) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def flags(self, index: Index) -> Qt.ItemFlag:
        if self.summary(index) is None:
            return Qt.ItemFlag.ItemNeverHasChildren
        return (
            Qt.ItemFlag.ItemIsEnabled
            | Qt.ItemFlag.ItemIsSelectable
            | Qt.ItemFlag.ItemIsEditable
            | Qt.ItemFlag.ItemNeverHasChildren
        )

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self.rows[index.row()]
        if isinstance(row, str):
            return row if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole) else None
        if role == Qt.ItemDataRole.DisplayRole:
            return shown_title(row)
        if role == Qt.ItemDataRole.ToolTipRole:
            return shown_title(row)
        if role == Qt.ItemDataRole.EditRole:
            return row.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return self._spoken(row)
        if role == Qt.ItemDataRole.AccessibleDescriptionRole:
            return row.snippet
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        summary = self.summary(index)
        title = " ".join(str(value).split())
        if summary is None or role != Qt.ItemDataRole.EditRole or not title or title == summary.title:
            return False
        self.rows[index.row()] = replace(summary, title=title)
        self.dataChanged.emit(index, index)
        self.renamed.emit(summary.id, title)
        return True

    def _spoken(self, summary: Summary) -> str:
        title = shown_title(summary)
        title = tr("{title}, pinned", title=title) if summary.pinned else title
        return tr("{title}, open", title=title) if summary.id == self.current else title

"""Draws the rows of the list and edits a title in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPointF,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen, QTextCharFormat, QTextLayout, QTextOption
from PySide6.QtWidgets import QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.design import themes
from app.design.controls import introduce
from app.design.focus_rings import is_ringed
from app.design.fonts import TEXT_BODY, TEXT_SMALL, px
from app.design.icons import BUTTON
from app.design.tokens import RADIUS, SPACE_1, SPACE_2, SPACE_3, SPACE_4, color, set_inks
from app.library import Summary
from app.library.listing import group
from app.library.search import Term, spans
from app.system.i18n import tr

Index = QModelIndex | QPersistentModelIndex
Row = Summary | str  # a conversation, or the title of a group
LONGEST_TITLE = 300  # characters of a title that are used; no row is as wide
NO_INDEX = QModelIndex()
LEFT, RIGHT = SPACE_3, SPACE_2  # pixels around the text, within a row
LEAST_ROW = 36


def shown_title(summary: Summary) -> str:
    """Returns a title in one line, never empty."""
    return " ".join(summary.title[:LONGEST_TITLE].split()) or tr("Untitled")


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
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
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


class RowPainter(QStyledItemDelegate):
    """Paints a conversation as its title and, in a search, the matching text; groups as small headers.

    ``terms`` are the search terms, highlighted in weight as well as in colour.
    """

    def __init__(self, rows: ConversationRows) -> None:
        super().__init__(rows)
        self._rows = rows
        self.terms: Sequence[Term] = ()
        self.shows_selection = False  # several are selected
        self.measure()

    def measure(self) -> None:
        """Measure the rows at the text size in use."""
        self._body, self._small = QFont(), QFont()
        self._body.setPixelSize(px(TEXT_BODY))
        self._small.setPixelSize(px(TEXT_SMALL))
        self._strong, self._header = QFont(self._body), QFont(self._small)
        self._strong.setWeight(QFont.Weight.DemiBold)
        self._header.setWeight(QFont.Weight.DemiBold)
        title, snippet = QFontMetrics(self._strong).height(), QFontMetrics(self._small).height()
        self._title_height, self._snippet_height = title, snippet
        self._plain_row = max(LEAST_ROW, title + 2 * SPACE_2)
        self._found_row = title + snippet + 2 * SPACE_2 + 2
        self._header_row = snippet + SPACE_4 + SPACE_1

    def sizeHint(self, _option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        row = self._rows.rows[index.row()]
        if isinstance(row, str):
            return QSize(0, self._header_row)
        return QSize(0, self._found_row if row.snippet else self._plain_row)

    def button_rect(self, row: QRect) -> QRect:
        return QRect(row.right() - BUTTON - SPACE_1 + 1, row.top() + (self._plain_row - BUTTON) // 2, BUTTON, BUTTON)

    def _title_rect(self, row: QRect) -> QRect:
        height = self._plain_row if row.height() < self._found_row else self._title_height + 2 * SPACE_2
        return QRect(row.left() + LEFT, row.top(), row.width() - LEFT - RIGHT, height)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        row = self._rows.rows[index.row()]
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        painter.save()
        if isinstance(row, str):
            below = rect.adjusted(LEFT, SPACE_3, -RIGHT, 0)
            self._write(painter, below, row, self._header, themes.current().faint_ink, ())
        else:
            self._paint_conversation(painter, rect, state, row, is_ringed=is_ringed(option.widget))
        painter.restore()

    def _paint_conversation(
        self, painter: QPainter, rect: QRect, state: QStyle.StateFlag, summary: Summary, *, is_ringed: bool
    ) -> None:
        theme = themes.current()
        is_open = summary.id == self._rows.current
        is_hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        has_cursor = bool(state & QStyle.StateFlag.State_HasFocus)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = rect.adjusted(0, 1, 0, -1)
        is_selected = self.shows_selection and bool(state & QStyle.StateFlag.State_Selected)
        if is_open or is_hovered or is_selected:
            shade = theme.selection if is_selected else theme.line if is_open else theme.surface_raised
            set_inks(painter, Qt.PenStyle.NoPen, color(shade))
            painter.drawRoundedRect(box, RADIUS, RADIUS)
        if is_open:
            painter.fillRect(QRect(box.left(), box.top() + SPACE_2, 3, box.height() - 2 * SPACE_2), color(theme.accent))
        if has_cursor and is_ringed:
            set_inks(painter, QPen(color(theme.focus), 2), Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(box.adjusted(1, 1, -1, -1), RADIUS, RADIUS)
        title = self._title_rect(rect)
        if is_hovered or has_cursor:
            title.setRight(self.button_rect(rect).left() - SPACE_1)
        font = self._strong if is_open else self._body
        self._write(painter, title, shown_title(summary), font, theme.ink, self.terms)
        if summary.snippet:
            below = QRect(rect.left() + LEFT, title.bottom() + 1 - SPACE_2 + 2, rect.width() - LEFT - RIGHT, 0)
            below.setHeight(self._snippet_height)
            self._write(painter, below, summary.snippet, self._small, theme.faint_ink, self.terms)

    def _write(self, painter: QPainter, rect: QRect, text: str, font: QFont, shade: str, terms: Sequence[Term]) -> None:
        """Writes one line, elided at the right, vertically centred."""
        line_text = QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
        layout = QTextLayout(line_text, font)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.NoWrap)
        layout.setTextOption(option)
        layout.setFormats(self._formats(line_text, terms))
        layout.beginLayout()
        line = layout.createLine()
        if line.isValid():
            line.setLineWidth(rect.width())
        layout.endLayout()
        painter.setClipRect(rect)
        painter.setPen(color(shade))
        layout.draw(painter, QPointF(rect.left(), rect.top() + (rect.height() - layout.boundingRect().height()) / 2))

    def _formats(self, text: str, terms: Sequence[Term]) -> list[QTextLayout.FormatRange]:
        if not terms:
            return []
        marked = QTextCharFormat()
        marked.setFontWeight(QFont.Weight.Bold)
        marked.setForeground(QColor(themes.current().ink))
        marked.setBackground(QColor(themes.current().selection))
        ranges: list[QTextLayout.FormatRange] = []
        for start, end in spans(text, terms):
            part = QTextLayout.FormatRange()
            part.start = _units(text[:start])
            part.length = _units(text[start:end])
            part.format = marked
            ranges.append(part)
        return ranges

    def createEditor(
        self, parent: QWidget, _option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex
    ) -> QWidget:
        return introduce(QLineEdit(parent, maxLength=200), tr("Title of the conversation"), id="rename")

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex
    ) -> None:
        row: QRect = option.rect
        editor.setGeometry(QRect(row.left(), row.top(), row.width(), self._plain_row))


def _units(text: str) -> int:
    """Returns the length in UTF-16 code units, as Qt counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2

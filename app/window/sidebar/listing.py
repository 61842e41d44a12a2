"""The list view: keys, mouse, the menu button of a row, renaming in place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QEvent, QItemSelection, QModelIndex, QPoint, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QContextMenuEvent, QFocusEvent, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QListView, QMenu

from app.design import themes
from app.design.controls import introduce
from app.design.icons import DotsButton
from app.design.tokens import SPACE_2
from app.library import Summary
from app.library.search import terms_of
from app.system.i18n import tr
from app.window.sidebar.painting import ConversationRows, Index, RowPainter, shown_title

EXPORTS = (("markdown", "Markdown"), ("json", "JSON"))


class RowMenu:
    """The menu of a conversation, of the selected ones, or of the empty space below the list."""

    def __init__(self, listed: ConversationList) -> None:
        self._list = listed
        self.menu = QMenu(listed)
        self._export = QMenu(tr("Export as"), self.menu)

    def fill(self, summary: Summary | None, title: str, count: int = 1) -> QMenu:
        """Fills the menu for a conversation, for ``count`` selected ones, or for the empty space below the list."""
        listed, menu = self._list, self.menu
        menu.clear()
        menu.setAccessibleName(tr("Actions for the list"))
        if summary is None:
            menu.addAction(tr("Import…"), listed.import_asked.emit)
            return menu
        id, delete = summary.id, partial(listed.delete, summary.id)
        if count > 1:
            menu.addAction(tr("Delete {count} conversations", count=count) + "\t" + tr("Del"), delete)
            return menu
        menu.setAccessibleName(tr("Actions for {title}", title=title))
        menu.addAction(tr("Open") + "\t" + tr("Enter"), partial(listed.opened.emit, id))
        menu.addAction(tr("Rename") + "\t" + "F2", partial(listed.rename, id))
        pin = partial(listed.pin_asked.emit, id, not summary.pinned)
        menu.addAction(tr("Unpin") if summary.pinned else tr("Pin"), pin)
        self._export.clear()
        for format, name in EXPORTS:
            self._export.addAction(name, partial(listed.export_asked.emit, id, format))
        menu.addMenu(self._export)
        menu.addSeparator()
        menu.addAction(tr("Delete") + "\t" + tr("Del"), delete)
        return menu


class ConversationList(QListView):
    """Emits requests for a conversation, or for several.

    After a click the focus is here, for F2 and Delete; what is typed is meant for the composer. Several conversations
    can be selected, to delete them.
    """

    opened = Signal(int)
    pin_asked = Signal(int, bool)
    export_asked = Signal(int, str)  # markdown or json
    import_asked = Signal()
    delete_asked = Signal(list)  # of ids
    typed = Signal(QKeyEvent)

    def __init__(self) -> None:
        super().__init__(resizeMode=QListView.ResizeMode.Adjust)
        self.rows = ConversationRows(self)
        self.renamed = self.rows.renamed
        self.painting = RowPainter(self.rows)
        self._pending: tuple[Sequence[Summary], int | None, float] | None = None
        self._hovered = QModelIndex()
        self.button = DotsButton(tr("Actions"), self.viewport())
        self.button.clicked.connect(self._open_button_menu)
        self.button.hide()
        self.setModel(self.rows)
        self.setItemDelegate(self.painting)
        introduce(self, tr("Conversations"), tr("Enter opens, F2 renames, Delete deletes, the menu key has more"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalScrollBar().setSingleStep(16)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setTabKeyNavigation(False)
        self.setMouseTracking(True)
        self.row_menu = RowMenu(self)
        self.clicked.connect(self._open)
        self.entered.connect(self._hover)
        self.viewportEntered.connect(self._leave)
        self.verticalScrollBar().valueChanged.connect(self._place_button)
        self.painting.closeEditor.connect(self._edited)
        themes.changed.connect(self._take_text_size)

    def show_conversations(self, summaries: Sequence[Summary], current: int | None, now: float) -> None:
        """Replaces the rows; scroll position and cursor stay. Delayed while a title is being edited."""
        if self._is_editing():
            self._pending = (summaries, current, now)
            return
        cursor, scroll = self.currentIndex(), self.verticalScrollBar().value()
        kept, row = self.rows.summary(cursor), cursor.row()
        was_current = self.rows.current
        before = self.rows.rows
        self.rows.show(summaries, current, now)
        if self.rows.rows is before:
            return
        self._hovered = QModelIndex()
        index = self.rows.index_of(kept.id) if kept is not None else QModelIndex()
        if not index.isValid() and kept is not None:
            index = self.rows.nearest(row)
        if current != was_current or not index.isValid():
            opened = self.rows.index_of(current)
            index = opened if opened.isValid() else index
        self.setCurrentIndex(index)
        self.verticalScrollBar().setValue(scroll)
        if current != was_current and index.isValid():
            self.scrollTo(index)
        self._place_button()

    def show_terms(self, query: str) -> None:
        self.painting.terms = terms_of(query)
        self.viewport().update()

    @Slot()
    def _take_text_size(self) -> None:
        self.painting.measure()
        self.scheduleDelayedItemsLayout()

    def open_first(self) -> None:
        first = self.rows.summary(self.rows.nearest(0))
        if first is not None:
            self.opened.emit(first.id)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        summary = self.rows.summary(self.currentIndex())
        key, plain = event.key(), event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if key == Qt.Key.Key_Menu or (key == Qt.Key.Key_F10 and plain == Qt.KeyboardModifier.ShiftModifier):
            self._popup_at(self.currentIndex())
        elif self._is_editing():
            super().keyPressEvent(event)
        elif event.matches(QKeySequence.StandardKey.Paste) or _is_text(event):
            self.typed.emit(event)
        elif summary is None or plain != Qt.KeyboardModifier.NoModifier:
            super().keyPressEvent(event)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.opened.emit(summary.id)
        elif key == Qt.Key.Key_F2:
            self.rename(summary.id)
        elif key == Qt.Key.Key_Delete:
            self.delete(summary.id)
        else:
            super().keyPressEvent(event)

    def moveCursor(self, action: QAbstractItemView.CursorAction, modifiers: Qt.KeyboardModifier) -> QModelIndex:
        index = super().moveCursor(action, modifiers)
        up = action in (
            QAbstractItemView.CursorAction.MoveUp,
            QAbstractItemView.CursorAction.MovePrevious,
            QAbstractItemView.CursorAction.MovePageUp,
        )
        while index.isValid() and self.rows.summary(index) is None:  # the cursor skips headers
            index = self.rows.index(index.row() + (-1 if up else 1))
        return index if index.isValid() else self.rows.nearest(0)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if event.reason() == QContextMenuEvent.Reason.Keyboard:
            self._popup_at(self.currentIndex())
            return
        index = self.indexAt(event.pos())
        self._popup(index if self.rows.summary(index) is not None else QModelIndex(), event.globalPos())

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if not self.currentIndex().isValid():
            opened = self.rows.index_of(self.rows.current)
            self.setCurrentIndex(opened if opened.isValid() else self.rows.nearest(0))
        self._place_button()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        QTimer.singleShot(0, self, self._place_button)  # after the focus has moved

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self._leave()
        return super().viewportEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_button()

    def currentChanged(self, current: Index, previous: Index) -> None:
        super().currentChanged(current, previous)
        self._place_button()

    def _is_editing(self) -> bool:
        return self.state() == QAbstractItemView.State.EditingState

    @Slot(QModelIndex)
    def _open(self, index: QModelIndex) -> None:
        summary = self.rows.summary(index)
        if summary is not None and len(self.selectedIndexes()) == 1:  # else Ctrl or Shift selects
            self.opened.emit(summary.id)
            self.setFocus(Qt.FocusReason.MouseFocusReason)

    def _selected_with(self, id: int) -> list[int]:
        """Returns the selected conversations, if this one is among them; else this one alone."""
        indexes = sorted(self.selectedIndexes(), key=QModelIndex.row)
        selected = [row.id for index in indexes if (row := self.rows.summary(index)) is not None]
        return selected if id in selected else [id]

    def selectionChanged(self, selected: QItemSelection, deselected: QItemSelection) -> None:
        super().selectionChanged(selected, deselected)
        self.painting.shows_selection = len(self.selectedIndexes()) > 1
        self.viewport().update()

    def delete(self, id: int) -> None:
        """Asks to delete a conversation, or all that are selected with it."""
        self.delete_asked.emit(self._selected_with(id))

    def rename(self, id: int) -> None:
        """Edits a title in place."""
        index = self.rows.index_of(id)
        if index.isValid():
            self.setCurrentIndex(index)
            self.scrollTo(index)
            self.edit(index)

    @Slot()
    def _edited(self) -> None:
        QTimer.singleShot(0, self, self._show_pending)  # after the editor is closed

    @Slot()
    def _show_pending(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self.show_conversations(*pending)

    @Slot(QModelIndex)
    def _hover(self, index: QModelIndex) -> None:
        self._hovered = index
        self._place_button()

    @Slot()
    def _leave(self) -> None:
        self._hovered = QModelIndex()
        self._place_button()

    def _button_index(self) -> QModelIndex:
        """Returns the row of the menu button: under the mouse, or else at the cursor."""
        on_cursor = self.button.hasFocus() or (self.hasFocus() and self.rows.summary(self._hovered) is None)
        return self.currentIndex() if on_cursor else self._hovered

    @Slot()
    def _place_button(self) -> None:
        index = self._button_index()
        summary = self.rows.summary(index)
        if summary is None:
            self.button.hide()
            return
        name = tr("Actions for {title}", title=shown_title(summary))
        self.button.setAccessibleName(name)
        self.button.setToolTip(name)
        self.button.setGeometry(self.painting.button_rect(self.visualRect(index)))
        self.button.show()

    @Slot()
    def _open_button_menu(self) -> None:
        self._popup(self._button_index(), self.button.mapToGlobal(QPoint(0, self.button.height())))

    def _popup_at(self, index: QModelIndex) -> None:
        rect = self.visualRect(index) if index.isValid() else self.viewport().rect()
        corner = rect.bottomLeft() if index.isValid() else rect.topLeft()
        self._popup(index, self.viewport().mapToGlobal(corner + QPoint(SPACE_2, 0)))

    def _popup(self, index: QModelIndex, where: QPoint) -> None:
        summary = self.rows.summary(index)
        if not self.row_menu.menu.isVisible():  # some systems send a key event and a menu event for one press
            count = len(self._selected_with(summary.id)) if summary is not None else 1
            self.row_menu.fill(summary, shown_title(summary) if summary is not None else "", count).popup(where)


def _is_text(event: QKeyEvent) -> bool:
    modifiers = event.modifiers() & ~(Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.KeypadModifier)
    return modifiers == Qt.KeyboardModifier.NoModifier and event.text().isprintable() and bool(event.text())

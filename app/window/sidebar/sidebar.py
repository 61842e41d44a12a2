"""The bar at the left: new chat, search, list, undo of a deletion, and the conversations deleted lately."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import QEvent, Qt, Signal, SignalInstance, Slot
from PySide6.QtGui import QAccessible, QAccessibleEvent, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QFrame, QLineEdit, QPushButton, QSizePolicy, QStackedWidget, QWidget

from app.design import themes
from app.design.controls import Elided, button, introduce, label
from app.design.fonts import TEXT_BODY, px
from app.design.icons import DotsButton
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.design.tokens import Theme
from app.library import Summary
from app.system.i18n import tr, trn
from app.system.timers import later
from app.window.sidebar.deleted import DeletedList
from app.window.sidebar.listing import ConversationList
from app.window.sidebar.painting import shown_title

REST_MS = 150
STAYS_MS = 10_000
SIDEBAR_WIDTH, MAX_SIDEBAR_WIDTH = 248, 340  # pixels, at 100 % and with large text


class SearchField(QLineEdit):
    """A search field. Emits ``searched(query)`` when the query changed, ``entered`` for Enter, ``left_down`` for
    Down."""

    searched = Signal(str)
    entered = Signal()
    left_down = Signal()

    def __init__(self) -> None:
        super().__init__(placeholderText=tr("Search"), maxLength=200, clearButtonEnabled=True)
        self.query = ""  # the query emitted last
        introduce(self, tr("Search conversations"), tr("Searches titles and messages; Escape clears"))
        self._rest = later(self, self._search, REST_MS)
        self.textChanged.connect(self._changed)

    def event(self, event: QEvent) -> bool:
        # Escape is also the window's shortcut; while the field has text, it clears the field.
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and self._clears(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._clears(event):
            self.clear()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._search()
            self.entered.emit()
        elif event.key() == Qt.Key.Key_Down:
            self._search()
            self.left_down.emit()
        else:
            super().keyPressEvent(event)

    def _clears(self, event: QKeyEvent) -> bool:
        return event.key() == Qt.Key.Key_Escape and bool(self.text())

    @Slot()
    def _changed(self) -> None:
        if self.text().strip():
            self._rest.start()
        else:
            self._search()

    @Slot()
    def _search(self) -> None:
        self._rest.stop()
        query = self.text().strip()
        if query != self.query:
            self.query = query
            self.searched.emit(query)


class UndoBar(QFrame):
    """Emits ``undone(ids)`` or ``taken_back(ids)``, the latest first. Stays while hovered or focused."""

    undone = Signal(list)  # a deletion
    taken_back = Signal(list)  # an import

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("undo")
        self._offers: list[tuple[list[int], str, SignalInstance]] = []
        self.line = Elided("")
        self.button = button(tr("Undo"), tr("Undo it"), tip=tr("Ctrl+Z"), clicked=self.undo)
        self.setLayout(row_of((self.line, 1), self.button, margins=(12, 4, 12, 4), spacing=8))
        self.timer = later(self, self._expire, STAYS_MS)
        self.shortcut = QShortcut(QKeySequence(QKeySequence.StandardKey.Undo), self)
        self.shortcut.activated.connect(self.undo)
        self._show()

    def offer(self, ids: list[int], title: str) -> None:
        """Offers undo of a deletion; ``title`` is that of the conversation, if it is one."""
        said = trn("Deleted “{title}”", "Deleted {count} conversations", len(ids), title=title)
        self._offers.append((ids, said, self.undone))
        self._show()

    def offer_taking_back(self, ids: list[int], said: str) -> None:
        """Says what an import brought, and offers to take it back."""
        self._offers.append((ids, said, self.taken_back))
        self._show()

    def show_progress(self, said: str) -> None:
        """Says how far an import is, in place of what is offered."""
        self.line.set_whole(said)
        self.button.hide()
        self.show()

    def drop(self, ids: Collection[int]) -> None:
        """Withdraws the offer for these conversations, which are there again."""
        left = [one for one in self._offers if one[2] is not self.undone or set(one[0]).isdisjoint(ids)]
        if len(left) != len(self._offers):
            self._offers = left
            self._show()

    @Slot()
    def undo(self) -> None:
        if self._offers:
            ids, _said, signal = self._offers.pop()
            self._show()
            signal.emit(ids)

    def _show(self) -> None:
        if self._offers:
            self.line.set_whole(self._offers[-1][1])
            self.button.setVisible(bool(self._offers[-1][0]))
            self.timer.start()
        else:
            self.timer.stop()
        self.shortcut.setEnabled(bool(self._offers))
        self.setVisible(bool(self._offers))
        if self._offers:  # announced by screen readers without focus
            QAccessible.updateAccessibility(QAccessibleEvent(self.line, QAccessible.Event.Alert))

    @Slot()
    def _expire(self) -> None:
        if self.underMouse() or self.button.hasFocus():
            self.timer.start()
            return
        self._offers.clear()
        self._show()


def style(theme: Theme) -> str:
    """Returns the sidebar's rules, for the window's style sheet."""
    return f"""
QWidget#sidebar {{ background: {theme.surface}; }}
QWidget#sidebar QListView {{ border: none; }}
QWidget#sidebar QListView[ring="true"] {{ border: none; }}
QWidget#sidebar QListView::item {{ border: none; padding: 0; }}
QWidget#sidebar QLineEdit QToolButton {{ min-height: 0; padding: 0; border: none; background: none; }}
QWidget#sidebar QLineEdit#rename {{ padding: 3px 7px; min-height: 0; font-size: {TEXT_BODY}px; }}
QWidget#sidebar QListWidget#deleted::item {{ padding: 6px 8px; border-radius: 4px; }}
QFrame#undo {{ background: {theme.surface_raised}; border: none; border-left: 2px solid {theme.faint_ink}; }}
"""


def _nothing(heading: str, sentence: str, *actions: QPushButton) -> QWidget:
    """Returns a heading and a sentence in place of an empty list, with the buttons of what can be done."""
    texts = (label(heading, "setting", wrap=True), label(sentence, "caption", wrap=True))
    return boxed(column_of(*texts, *actions, STRETCH, margins=(12, 16, 12, 16), spacing=8))


class Sidebar(QWidget):
    """Shows the conversations given to ``show_conversations`` and emits requests. Knows no database."""

    new_asked = Signal()
    delete_asked = Signal(list)  # of ids
    undo_asked = Signal(list)
    searched = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        themes.changed.connect(self._fit_width)
        self._fit_width()
        self.new = button(tr("New chat"), role="plain", clicked=self.new_asked)
        self.new.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.more = DotsButton(tr("Actions for the list"))
        self.search = SearchField()
        self.list = ConversationList()
        self.opened, self.renamed, self.pin_asked = self.list.opened, self.list.renamed, self.list.pin_asked
        self.export_asked, self.import_asked = self.list.export_asked, self.list.import_asked
        self.undo = UndoBar()
        self.deleted = DeletedList()
        self.erase_asked = self.deleted.erase_asked
        self.to_deleted = button("", tr("Show the conversations that were deleted lately"), clicked=self.show_deleted)
        self.to_deleted.hide()
        self.nothing_yet = _nothing(
            tr("No conversations yet"), tr("What you ask is kept here, on this computer and nowhere else.")
        )
        self.clear_search = button(tr("Clear the search"), clicked=self._clear_search)
        self.nothing_found = _nothing(
            tr("Nothing found"), tr("No title or message has all of these words."), self.clear_search
        )
        self._stack = QStackedWidget()
        for page in (self.list, self.nothing_yet, self.nothing_found):
            self._stack.addWidget(page)
        self._stack.setCurrentWidget(self.nothing_yet)
        self._lay_out()
        self._connect()

    @Slot()
    def _fit_width(self) -> None:
        self.setFixedWidth(max(SIDEBAR_WIDTH, min(px(SIDEBAR_WIDTH), MAX_SIDEBAR_WIDTH)))

    def _lay_out(self) -> None:
        first = row_of((self.new, 1), self.more, spacing=4)
        top = column_of(first, self.search, margins=(12, 12, 12, 4), spacing=8)
        middle = column_of(self._stack, margins=(8, 0, 4, 0))
        below = column_of(row_of(self.to_deleted, STRETCH), margins=(12, 4, 12, 8))
        self.parts = QStackedWidget()
        self.parts.addWidget(boxed(column_of(top, (middle, 1), self.undo, below, spacing=0)))
        self.parts.addWidget(self.deleted)
        self.setLayout(column_of(self.parts, spacing=0))

    def _connect(self) -> None:
        self.more.clicked.connect(self._open_menu)
        self.search.searched.connect(self._search)
        self.search.entered.connect(self.list.open_first)
        self.search.left_down.connect(self._go_to_list)
        self.list.delete_asked.connect(self._delete)
        self.deleted.restore_asked.connect(self.undo_asked)
        self.deleted.closed.connect(self.leave_deleted)
        self.undo.undone.connect(self.undo_asked)
        self.undo.taken_back.connect(self.delete_asked)

    def show_conversations(self, summaries: Sequence[Summary], current: int | None, now: float) -> None:
        """Shows conversations in the given order, under headers.

        Args:
            summaries: all conversations, or the results of the latest ``searched``.
            current: the id of the open conversation.
            now: seconds since 1970, for the headers.
        """
        had_focus = self.list.hasFocus()
        self.undo.drop({summary.id for summary in summaries})
        self.list.show_conversations(summaries, current, now)
        if summaries:
            self._stack.setCurrentWidget(self.list)
        elif self.search.query:
            self._stack.setCurrentWidget(self.nothing_found)
        else:
            self._stack.setCurrentWidget(self.nothing_yet)
        if had_focus and not summaries:
            self.new.setFocus()

    def offer_deleted(self, summaries: Sequence[Summary], now: float) -> None:
        """Sets the conversations that can be restored; without any, their list is left."""
        self.deleted.show_conversations(summaries, now)
        self.to_deleted.setText(tr("Recently deleted ({count})", count=len(summaries)))
        self.to_deleted.setVisible(bool(summaries))
        if not summaries and self.parts.currentWidget() is self.deleted:
            self.leave_deleted()

    @Slot()
    def show_deleted(self) -> None:
        """Shows the conversations that can be restored, if there are any."""
        if self.deleted.list.count():
            self.parts.setCurrentWidget(self.deleted)
            self.deleted.list.setFocus()

    @Slot()
    def leave_deleted(self) -> None:
        self.parts.setCurrentIndex(0)
        has_rows = self._stack.currentWidget() is self.list
        (self.list if has_rows else self.new).setFocus()

    def focus_search(self) -> None:
        self.parts.setCurrentIndex(0)
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    @Slot(list)
    def _delete(self, ids: list[int]) -> None:
        first = self.list.rows.summary(self.list.rows.index_of(ids[0]))
        if first is not None:
            self.undo.offer(ids, shown_title(first))  # before emitting, so that a failure can withdraw it
            self.delete_asked.emit(ids)

    @Slot(str)
    def _search(self, query: str) -> None:
        self.list.show_terms(query)
        self.searched.emit(query)

    @Slot()
    def _clear_search(self) -> None:
        self.search.clear()
        self.search.setFocus()

    @Slot()
    def _go_to_list(self) -> None:
        if self._stack.currentWidget() is self.list:
            self.list.setFocus(Qt.FocusReason.TabFocusReason)

    @Slot()
    def _open_menu(self) -> None:
        menu = self.list.row_menu.fill(None, "")
        menu.popup(self.more.mapToGlobal(self.more.rect().bottomLeft()))

"""The command palette, which finds actions and further entries by parts of words, and the sheet of shortcuts."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
    Slot,
)
from PySide6.QtGui import QFont, QKeyEvent, QPainter, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QGridLayout,
    QLineEdit,
    QListView,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.design import themes
from app.design.action import Action, Actions, key_text
from app.design.controls import button, introduce, label, scroller
from app.design.fonts import TEXT_SMALL, px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.design.tokens import color, set_inks
from app.library.search import folded
from app.system.i18n import tr

PALETTE_WIDTH = 600
MAX_ROWS = 9
FROM_TOP = 72  # pixels below the window's upper edge
ACTION = Qt.ItemDataRole.UserRole
REASON = Qt.ItemDataRole.UserRole + 1

Index = QModelIndex | QPersistentModelIndex


def _row(action: Action) -> QStandardItem:
    """Returns the row of an action."""
    reason, keys = action.enabled(), ", ".join(key_text(keys) for keys in action.keys)
    row = QStandardItem(action.title)
    row.setData(action, ACTION)
    row.setData(reason, REASON)
    row.setToolTip(reason)
    row.setAccessibleText(", ".join(filter(None, (action.title, action.section, keys, reason))))
    return row


class ActionDelegate(QStyledItemDelegate):
    """Paints an action: its title, its section or why it is disabled, and its key."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: Index) -> QSize:
        return QSize(120, max(36, 4 * round((2 * px(TEXT_SMALL) + 12) / 4)))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        theme, action, reason = themes.current(), index.data(ACTION), index.data(REASON)
        if action is None:
            return
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:
            set_inks(painter, color(theme.focus), color(theme.selection))
            painter.drawRoundedRect(option.rect.adjusted(1, 1, -2, -2), 4, 4)
        small = QFont(option.font)
        small.setPixelSize(px(TEXT_SMALL))
        area = option.rect.adjusted(12, 0, -12, 0)
        side = Qt.AlignmentFlag.AlignVCenter
        # faint ink lacks contrast on the selection, so a selected row is painted in full ink
        faint = theme.ink if option.state & QStyle.StateFlag.State_Selected else theme.faint_ink

        def put(text: str, font: QFont, shade: str, place: QRect, align: Qt.AlignmentFlag) -> int:
            painter.setFont(font)
            painter.setPen(color(shade))
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, place.width())
            painter.drawText(place, align | side | Qt.TextFlag.TextSingleLine, shown)
            return painter.fontMetrics().horizontalAdvance(shown)

        keys = "  ".join(key_text(keys) for keys in action.keys)
        width = put(keys, small, faint, area, Qt.AlignmentFlag.AlignRight)
        area.setRight(area.right() - width - (16 if width else 0))
        used = put(action.title, option.font, faint if reason else theme.ink, area, Qt.AlignmentFlag.AlignLeft)
        area.setLeft(area.left() + used + 12)
        if area.width() > 40:
            put(reason or action.section, small, faint, area, Qt.AlignmentFlag.AlignLeft)
        painter.restore()


class Palette(QDialog):
    """The palette, opened over a window with ``ask``. The field keeps the focus; the arrow keys move in the list."""

    def __init__(self, actions: Actions, parent: QWidget | None = None, others: Sequence[Action] = ()) -> None:
        title, kind = tr("Command palette"), Qt.WindowType.Dialog | Qt.WindowType.FramelessWindowHint
        super().__init__(parent, kind, modal=True)
        self.setWindowTitle(title)
        introduce(self, title, id="palette")
        self._actions, self._others = actions, others  # entries that are listed only while something is typed
        self.field = introduce(
            QLineEdit(maxLength=200, placeholderText=tr("Find an action, a chat, a model or a setting")), tr("Command")
        )
        self.field.installEventFilter(self)
        self.field.textChanged.connect(self._filter)
        self.model = QStandardItemModel(self)
        self.list = introduce(QListView(uniformItemSizes=True), tr("Commands found"), id="found")
        self.list.setModel(self.model)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._painting = ActionDelegate(self.list)
        self.list.setItemDelegate(self._painting)
        self.list.clicked.connect(self._run_current)
        self.list.selectionModel().currentChanged.connect(self._describe_current)
        self.hint = label("", "caption", wrap=True, name=tr("Hint"))
        self._column = column_of(self.field, self.list, self.hint, margins=(12, 12, 12, 12), spacing=8)
        self.setLayout(self._column)

    def ask(self) -> None:
        """Opens with an empty field, over the upper part of the parent."""
        self.field.clear()
        self._filter("")
        for widget in (self, self.field, self.hint):
            widget.ensurePolished()  # sizes come from the style sheet
        parent = self.parentWidget()
        room = parent.window().size() if parent is not None else QSize(PALETTE_WIDTH + 48, 480)
        width = min(px(PALETTE_WIDTH), room.width() - 48)
        height = self._painting.sizeHint(QStyleOptionViewItem(), QModelIndex()).height()
        self.list.setFixedHeight(max(3, min(MAX_ROWS, (room.height() - FROM_TOP - px(120)) // height)) * height + 4)
        self.setFixedWidth(width)
        self._column.invalidate()
        self.setFixedHeight(self.sizeHint().height())
        if parent is not None:
            corner = parent.window().geometry().topLeft()
            self.move(corner.x() + (room.width() - width) // 2, corner.y() + FROM_TOP)
        self.open()
        self.field.setFocus()

    @property
    def current(self) -> Action | None:
        action: Action | None = self.list.currentIndex().data(ACTION)
        return action

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.field and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            key = event.key()
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._run_current()
                return True
            if key in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
                QApplication.sendEvent(self.list, event)
                return True
        return super().eventFilter(watched, event)

    @Slot(str)
    def _filter(self, query: str) -> None:
        offered = [action for action in self._actions if action.in_palette]
        offered += self._others if query.split() else ()
        matches = ranked(query, offered)
        self.model.clear()
        self.model.appendColumn([_row(action) for action in matches])
        if matches:
            self.list.setCurrentIndex(self.model.index(0, 0))
        self._describe_current()

    @Slot()
    def _describe_current(self) -> None:
        """Describes the selected action in the field, so that screen readers read it while the field has the focus."""
        index = self.list.currentIndex()
        if not index.isValid():
            self.hint.setText(tr("No match. Try fewer letters."))
            self.field.setAccessibleDescription(self.hint.text())
            return
        reason = index.data(REASON)
        self.hint.setText(reason or tr("Arrow keys choose, Enter runs, Esc closes."))
        self.field.setAccessibleDescription(str(index.data(Qt.ItemDataRole.AccessibleTextRole)))

    @Slot()
    def _run_current(self) -> None:
        action = self.current
        if action is None:
            return
        reason = action.enabled()
        if reason:
            self.hint.setText(reason)
            return
        self.accept()  # first, so that the action finds the window active and may open a dialog
        action.run()


def ranked(query: str, actions: Sequence[Action]) -> list[Action]:
    """Returns the actions that have all words of a query, case and accents aside; first those with words that begin so.

    All in their own order for an empty query.
    """
    words = folded(query).split()
    texts = [(f" {folded(f'{action.title} {action.section}')}", action) for action in actions]
    matches = [(text, action) for text, action in texts if all(word in text for word in words)]
    matches.sort(key=lambda entry: -sum(f" {word}" in entry[0] for word in words))
    return [action for _text, action in matches]


class ShortcutSheet(QDialog):
    """Lists titles on the left and keys on the right. Esc closes it; the arrow keys scroll.

    The actions whose ids are ``offered`` also have a button.
    """

    def __init__(
        self, actions: Actions, page: str = "", parent: QWidget | None = None, offered: Sequence[str] = ()
    ) -> None:
        title = tr("Keyboard shortcuts")
        super().__init__(parent, modal=True)
        self.setWindowTitle(title)
        introduce(self, title, id="shortcuts")
        self._grid = QGridLayout()
        self._grid.setContentsMargins(24, 8, 24, 16)
        self._grid.setHorizontalSpacing(24)
        self._grid.setVerticalSpacing(8)
        self._grid.setColumnStretch(0, 1)
        for section, members in actions.sections(page):
            shown = [action for action in members if action.keys]
            if shown:
                self._grid.setRowMinimumHeight(self._grid.rowCount(), 8)
                self._grid.addWidget(label(section, "section"), self._grid.rowCount(), 0, 1, 2)
            for action in shown:
                self._add(action)
        self._grid.setRowStretch(self._grid.rowCount(), 1)
        self.area = introduce(scroller(boxed(self._grid)), tr("Shortcuts by section"))
        self.area.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.done_button = button(tr("Close"), tr("Close the shortcuts"), role="plain", clicked=self.accept)
        self.done_button.setDefault(True)
        self.offers = [self._offer(actions[action]) for action in offered]
        foot = row_of(*self.offers, STRETCH, self.done_button, margins=(24, 0, 24, 16))
        heading = label(title, "title")
        heading.setContentsMargins(24, 0, 24, 0)
        self.setLayout(column_of(heading, (self.area, 1), foot, margins=(0, 16, 0, 0), spacing=8))
        themes.settled.connect(self._fit)
        self._fit()

    def _offer(self, action: Action) -> QPushButton:
        made = introduce(button(action.title, clicked=self.accept), tip=action.enabled())
        made.setEnabled(not action.enabled())
        made.clicked.connect(action.run)
        return made

    def _add(self, action: Action) -> None:
        row = self._grid.rowCount()
        self._grid.addWidget(label(action.title, wrap=True), row, 0)
        keys = row_of(STRETCH, spacing=4)
        for sequence in action.keys:
            made = label(key_text(sequence), "key", name=f"{action.title}, {key_text(sequence)}")
            made.setMinimumHeight(px(24))
            keys.addWidget(made)
        self._grid.addLayout(keys, row, 1)

    @Slot()
    def _fit(self) -> None:
        room = self.screen().availableSize()
        self.resize(min(px(520), room.width() - 32), min(px(560), room.height() - 64))

"""Builders of named controls, and the one combo box. Controls have a role for the style sheet and a spoken name."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, TypeVar

from PySide6.QtCore import QPoint, QRect, QSize, Qt, QTimer, SignalInstance
from PySide6.QtGui import QFontMetrics, QHelpEvent, QKeyEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QFrame,
    QLabel,
    QLayout,
    QLayoutItem,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QStyle,
    QStyleOptionComboBox,
    QToolTip,
    QWidget,
)

from app.design.fonts import px
from app.design.layouts import bare, row_of
from app.system.i18n import tr

Introduced = TypeVar("Introduced", bound=QWidget)
Role = Literal["primary", "link", "chip", "plain"]
TIP_SIGNS = 80  # characters of a line of a tool tip
LEAST_ELIDED_WIDTH = 40  # width in pixels that an elided label asks for before it is laid out


def button(
    text: str,
    name: str = "",
    *,
    role: Role = "link",
    tip: str = "",
    clicked: Callable[[], object] | SignalInstance | None = None,
    checkable: bool = False,
) -> QPushButton:
    """Returns a push button.

    Args:
        name: accessible name where ``text`` alone is not enough.
        clicked: called, or emitted, at each click.
    """
    control = QPushButton(text)
    control.setProperty("role", role)
    control.setCheckable(checkable)
    control.setAccessibleName(name or text)
    describe(control, tip)
    control.setCursor(Qt.CursorShape.PointingHandCursor)
    control.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
    if clicked is not None:
        control.clicked.connect(clicked)
    return control


def show_stop(control: QPushButton, text: str, name: str, *, skips: bool) -> None:
    """Labels a button "stop"; with ``skips``, the run is computed and only played, and the button skips to its end."""
    tip = tr("Shows the rest at once (Esc)") if skips else tr("Within one step (Esc)")
    control.setText(tr("Skip") if skips else text)
    control.setAccessibleName(tr("Skip to the end") if skips else name)
    describe(control, tip)


def label(text: str = "", role: str = "", *, name: str = "", wrap: bool = False, selectable: bool = False) -> QLabel:
    """Returns a label that shows its text as plain text, never as markup; ``name`` is its accessible name."""
    widget = QLabel(text, textFormat=Qt.TextFormat.PlainText, wordWrap=wrap)
    widget.setProperty("role", role)
    widget.setAccessibleName(name)
    if wrap:
        grow_with_width(widget, QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
    if selectable:
        widget.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
    return widget


def grow_with_width(widget: QWidget, horizontal: QSizePolicy.Policy, vertical: QSizePolicy.Policy) -> None:
    """Sets the size policy of a widget whose height depends on its width."""
    policy = QSizePolicy(horizontal, vertical)
    policy.setHeightForWidth(True)
    widget.setSizePolicy(policy)


def show_line(line: QLabel, text: str) -> None:
    """Shows a text in a label that takes no room without one."""
    line.setText(text)
    line.setVisible(bool(text))


def describe(widget: QWidget, text: str) -> None:
    """Explains a widget, in its tool tip and to screen readers."""
    widget.setToolTip(text)
    widget.setAccessibleDescription(text)


def introduce(
    widget: Introduced, name: str = "", description: str = "", *, tip: str = "", role: str = "", id: str = ""
) -> Introduced:
    """Gives a widget a name and a description for screen readers, a tool tip, and what the style sheet knows it by."""
    for text, give in (
        (name, widget.setAccessibleName),
        (description, widget.setAccessibleDescription),
        (tip, widget.setToolTip),
        (role, partial(widget.setProperty, "role")),
        (id, widget.setObjectName),
    ):
        if text:
            give(text)
    return widget


def discard(widget: QWidget) -> None:
    """Removes a widget from sight, and for good once its events are handled."""
    widget.hide()
    widget.deleteLater()


def restyle(widget: QWidget, name: str, value: object) -> None:
    """Sets a property that the style sheet depends on, and re-polishes the widget, since Qt applies it only then."""
    widget.setProperty(name, value)
    widget.style().unpolish(widget)
    widget.style().polish(widget)


def chain_tabs(first: QWidget, rest: Iterable[QWidget]) -> None:
    """Puts the rest after the first in the tab order, although they were created later."""
    for widget in rest:
        QWidget.setTabOrder(first, widget)
        first = widget


def focus_in_view(widget: QWidget) -> None:
    """Moves the focus to a widget, and scrolls the areas around it to it, once their layout is done.

    Tab scrolls by itself; ``setFocus`` alone does not.
    """
    widget.setFocus()
    QTimer.singleShot(0, widget, lambda: reveal(widget))


def reveal(widget: QWidget) -> None:
    """Scrolls the areas around a widget to it."""
    parent = widget.parentWidget()
    while parent is not None:
        if isinstance(parent, QScrollArea):
            parent.ensureWidgetVisible(widget)
        parent = parent.parentWidget()


def usable(widget: QWidget) -> bool:
    """True if the widget can take the focus now, or once its window is shown."""
    return widget.isEnabled() and widget.isVisibleTo(widget.window())


class FocusGroup:
    """Keeps the focus among controls that are hidden or disabled in turn. Change these in a ``with`` block.

    Otherwise Qt would move the focus to the next widget of the window. If none of the controls can take it, it returns
    when one can, unless it was moved meanwhile.
    """

    def __init__(self, *controls: QWidget) -> None:
        self._controls = controls
        self._held: QWidget | None = None
        self._lent_to: QWidget | None = None

    def __enter__(self) -> None:
        self._held = next((control for control in self._controls if control.hasFocus()), None)
        if self._held is None and self._lent_to is not None and QApplication.focusWidget() is self._lent_to:
            self._held = self._controls[0]

    def __exit__(self, *_problem: object) -> None:
        held, self._held, self._lent_to = self._held, None, None
        if held is None or held.hasFocus():
            return
        heir = next((control for control in (held, *self._controls) if usable(control)), None)
        if heir is not None:
            heir.setFocus()
        else:
            self._lent_to = QApplication.focusWidget()


class Hairline(QFrame):
    """A line one device-independent pixel thick."""

    def __init__(self, orientation: Qt.Orientation = Qt.Orientation.Horizontal, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "hairline")
        if orientation == Qt.Orientation.Horizontal:
            self.setFixedHeight(1)
        else:
            self.setFixedWidth(1)


def folded(*lines: str) -> str:
    """Wraps the lines of a tool tip that are too long; Qt wraps only markup."""
    return "\n".join(textwrap.fill(line, TIP_SIGNS) for line in lines)


def show_tip(event: QHelpEvent, words: str, widget: QWidget, area: QRect | None = None) -> None:
    """Shows a tool tip until the pointer leaves the area, if there is one; an empty text shows none."""
    if words:
        QToolTip.showText(event.globalPos(), folded(*words.split("\n")), widget, area or QRect())
    else:
        QToolTip.hideText()
        event.ignore()


class Elided(QLabel):
    """A label of one line that is elided if its text does not fit; its tool tip is the whole text."""

    def __init__(self, role: str) -> None:
        super().__init__(textFormat=Qt.TextFormat.PlainText)
        self._whole = ""
        self.setProperty("role", role)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def set_whole(self, text: str) -> None:
        """Sets the whole text; the label shows as much of it as fits."""
        if text == self._whole:
            return
        self._whole = text
        self.setToolTip(text)
        self.setAccessibleName(text)
        self._elide()

    def _elide(self) -> None:
        room = max(LEAST_ELIDED_WIDTH, self.width())
        self.setText(QFontMetrics(self.font()).elidedText(self._whole, Qt.TextElideMode.ElideRight, room))

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._elide()


class FlowLayout(QLayout):
    """Lays out widgets in rows from the left, like words of a paragraph, ``gap`` pixels apart. ``row_gap`` is the
    distance of rows in pixels; the default is ``gap``."""

    def __init__(self, parent: QWidget | None = None, gap: int = 8, row_gap: int | None = None) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._gap, self._row_gap = gap, gap if row_gap is None else row_gap
        self.setContentsMargins(0, 0, 0, 0)

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # type: ignore[override, unused-ignore]
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # type: ignore[override, unused-ignore]
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(QRect(0, 0, width, 0), apply=False)

    def sizeHint(self) -> QSize:
        """Returns the size of all widgets in one row."""
        sizes = [item.sizeHint() for item in self._items if not item.isEmpty()]
        width = sum(size.width() for size in sizes) + self._gap * max(0, len(sizes) - 1)
        return QSize(width, max((size.height() for size in sizes), default=0))

    def minimumSize(self) -> QSize:
        size = QSize()
        for item in self._items:
            size = size.expandedTo(item.minimumSize())
        return size

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._arrange(rect, apply=True)

    def _arrange(self, rect: QRect, *, apply: bool) -> int:
        """Returns the height of the rows; ``apply`` also places the widgets."""
        x, y, row = rect.x(), rect.y(), 0
        for item in self._items:
            if item.isEmpty():
                continue
            size = item.sizeHint()
            if x > rect.x() and x + size.width() > rect.x() + rect.width():
                x, y, row = rect.x(), y + row + self._row_gap, 0
            if apply:
                item.setGeometry(QRect(QPoint(x, y), size))
            x += size.width() + self._gap
            row = max(row, size.height())
        return y + row - rect.y()


def flow_of(*parts: QWidget, gap: int = 8, row_gap: int | None = None) -> QWidget:
    """Returns a widget that lays out its parts as ``FlowLayout`` does."""
    widget = QWidget()
    flow = FlowLayout(widget, gap, row_gap)
    for part in parts:
        flow.addWidget(part)
    return widget


def group(*parts: QWidget) -> QWidget:
    """Groups widgets that stay on one line."""
    widget = QWidget(minimumHeight=px(36))  # as high as a field, so that all groups have the same centre line
    widget.setLayout(row_of(*parts, spacing=8))
    return widget


class _PagedArea(QScrollArea):
    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            super().keyPressEvent(event)
        else:
            event.ignore()


def scroller(widget: QWidget, *, arrows: bool = True) -> QScrollArea:
    """Returns a frame in which ``widget`` scrolls vertically; its own background shows through.

    Without ``arrows`` only Page Up and Page Down scroll it; all other keys are passed to its parent.
    """
    area = QScrollArea() if arrows else _PagedArea()
    area.setWidgetResizable(True)
    bare(area)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidget(widget)
    return area


BEARINGS = 2  # pixels at 100 %: the side bearings at both ends, which Qt omits when it measures the longest text


def choice_of(options: Iterable[tuple[object, str]]) -> ChoiceBox:
    """Returns a box of these values, each with its text."""
    box = ChoiceBox()
    for value, text in options:
        box.addItem(text, value)
    return box


class ChoiceBox(QComboBox):
    """A combo box that reacts to the wheel only when focused. A text that does not fit is elided; the list shows it
    whole."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # the wheel does not focus it

    def sizeHint(self) -> QSize:
        return super().sizeHint() + QSize(px(BEARINGS), 0)

    def initStyleOption(self, option: QStyleOptionComboBox) -> None:
        super().initStyleOption(option)
        style, part = self.style(), QStyle.SubControl.SC_ComboBoxEditField
        room = style.subControlRect(QStyle.ComplexControl.CC_ComboBox, option, part, self).width()
        metrics = QFontMetrics(self.font())
        option.currentText = metrics.elidedText(option.currentText, Qt.TextElideMode.ElideRight, room)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def showPopup(self) -> None:
        view = self.view()
        view.setMinimumWidth(view.sizeHintForColumn(0) + 2 * view.frameWidth())  # the list is wider than a narrow box
        super().showPopup()

"""A scrolling column of many parts, of which only those near the visible area have widgets. Knows no conversations.

Other parts have only heights: estimated first, remembered once laid out. Correcting an estimate above the visible area
does not move the visible area. Widgets near it are made one by one in idle time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from PySide6.QtCore import QEvent, QPoint, QRect, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget

from app.chat.messages.heights import Heights, settled_value
from app.design import themes
from app.design.controls import chain_tabs, discard
from app.design.layouts import bare
from app.design.tokens import color
from app.system.timers import later

NEAR = 1.0
"""Pages above and below the visible area in which widgets are made ahead."""
FAR = 3.0
"""Pages away from the visible area beyond which a widget is deleted."""
FEW_WIDGETS = 24
"""Number of widgets up to which none is deleted."""
SIDE = 24
NEAR_END = 8  # pixels; closer than this counts as the end

Make = Callable[[Any], QWidget]
Guess = Callable[[Any, int], int]  # estimated height of a part at a width
Stops = Callable[[Any], Sequence[QWidget]]


class _Column(QWidget):
    """Holds the parts' widgets; emits ``height_wanted`` when one asks for another height."""

    height_wanted = Signal()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.height_wanted.emit()
            return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        shade = color(themes.current().line)
        with QPainter(self) as painter:
            for view in self.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly):
                if view.y() and view.isVisible():
                    painter.fillRect(QRect(view.x(), view.y(), view.width(), 1), shade)


class Scroller(QScrollArea):
    """Shows the parts given to ``set_items``; ``make`` returns a part's widget when it is needed.

    The last part always has its widget. A part reports its height by ``heightForWidth`` or ``sizeHint``.

    While widgets are made, hidden and placed, Qt reports other sizes, another focus and another scroll position before
    the change is complete. These reports are handled once, after the change. Whenever outside code can run, each widget
    has its part, and each part its height.
    """

    def __init__(self, make: Make, guess: Guess, stops: Stops, width: Callable[[], int]) -> None:
        super().__init__(widgetResizable=False)
        bare(self)
        self._make, self._guess, self._stops, self._most_width = make, guess, stops, width
        self._items: list[Hashable] = []
        self._places: dict[Hashable, int] = {}
        self._views: dict[Hashable, QWidget] = {}
        self._known: dict[Hashable, int] = {}  # heights at ``_known_width``
        self._known_width = 0
        self._heights = Heights()
        self._slack = 0  # empty pixels under the last part, so that nothing moves when it becomes shorter
        self._covered = 0  # pixels at the lower edge of the page that another widget covers
        self._at_end = True
        self._changes = 0  # depth of nested changes that are not complete
        self._room = (0, 0)  # width and height of the page that the layout was made for
        self._column = _Column()
        self._column.height_wanted.connect(self._measure_views)
        self.setWidget(self._column)
        self.verticalScrollBar().setSingleStep(40)
        self.verticalScrollBar().valueChanged.connect(self._moved)
        self._idle = later(self, self._work)
        self._late = later(self, self._catch_up)  # handles Qt's reports during a change, afterwards
        QApplication.instance().focusChanged.connect(self._focus_moved)  # type: ignore[union-attr]

    @property
    def views(self) -> dict[Hashable, QWidget]:
        return dict(self._views)

    def view(self, item: Hashable) -> QWidget | None:
        """Returns the widget of a part; None if it has none now."""
        return self._views.get(item)

    def realise(self, item: Hashable) -> QWidget:
        """Returns the widget of a part; makes it if necessary."""
        if item not in self._views:
            anchor = self._anchor()
            if self._realise(item):
                self._arrange(None if self._at_end and not self._slack else anchor)
        return self._views[item]

    def set_items(self, items: Sequence[Hashable], *, follow: bool) -> None:
        """Replaces the parts; keeps widgets of parts that stay. ``follow`` scrolls to the end, else nothing moves."""
        anchor = self._anchor()
        if anchor is not None and anchor[0] not in items:  # the part now at its index takes its place
            anchor = (items[min(self._places[anchor[0]], len(items) - 1)], anchor[1]) if items else None
        with self._changing():
            self._items, self._places = list(items), {item: place for place, item in enumerate(items)}
            gone = [self._views.pop(item) for item in list(self._views) if item not in self._places]
            self._known = {item: height for item, height in self._known.items() if item in self._places}
            self._slack = 0
            self._estimate()
            for view in gone:
                self._discard(view)
            if items and items[-1] not in self._views:
                self._realise(items[-1])
            self._at_end = follow or anchor is None
            self._arrange(None if self._at_end else anchor)
            self._note_end()

    @Slot(int)
    def set_covered(self, pixels: int) -> None:
        """Sets how many pixels at the lower edge are covered; the end can be scrolled above them. Moves nothing."""
        if pixels != self._covered:
            self._slack += max(0, self._covered - pixels)
            self._covered = pixels
            self._trim_slack()
            self._resize_column()

    def forget_heights(self) -> None:
        """Measures all parts again, as after a change of the text size."""
        anchor = None if self._at_end else self._anchor()
        self._known.clear()
        self._fit(anchor)

    def follow(self) -> None:
        """Scrolls to the end and keeps it visible from now on."""
        self._slack = 0
        self._at_end = True
        self._arrange(None)

    def hold(self) -> tuple[int, bool]:
        """Returns the scroll position and whether it is at the end, for ``settle`` after the last part has changed."""
        return self.verticalScrollBar().value(), self._at_end

    def settle(self, place: tuple[int, bool], *, goes_on: bool = False) -> None:
        """Updates the layout after the last part was replaced; the visible area moves as little as possible.

        ``goes_on``: the part will soon be as long again, so nothing moves unless half of the page would be empty.
        """
        value, was_at_end = place
        if not self._items:
            return
        self._measure_views()
        if not was_at_end:
            return
        page = self.viewport().height()
        total = self._length
        aim = settled_value(value, page, total, self._heights.top(len(self._items) - 1))
        if total - page >= value:  # longer than before: its end stays visible
            self._arrange((self._items[0], value))
            self._go_to_end()
            return
        self._slack = max(0, value + page - total)
        self._arrange((self._items[0], value))
        if aim != value and not (goes_on and total - value > page // 2):
            self._go_to(aim)

    def show_place(self, item: Hashable, offset: int) -> None:
        """Scrolls so that what is ``offset`` pixels below the top of a part is in the upper third of the page."""
        self.show_top(item, offset - self.viewport().height() // 3)

    @property
    def top_item(self) -> Hashable | None:
        """The part at the top of the page; None without parts."""
        anchor = self._anchor()
        return None if anchor is None else anchor[0]

    def show_top(self, item: Hashable, offset: int = 0) -> None:
        """Scrolls so that what is ``offset`` pixels below a part's top is at the page's, if there is enough below."""
        self.realise(item)
        self._slack = 0
        self._arrange((item, offset))
        self._note_end()

    def height_in_sight(self, widget: QWidget) -> int:
        """Returns the distance of a widget within a part from the top of the page, in pixels."""
        return widget.mapTo(self.viewport(), QPoint()).y()

    def keep_in_sight(self, item: Hashable, widget: QWidget, height: int) -> int:
        """Scrolls so that a widget within a changed part is again ``height`` pixels below the top of the page.

        Returns the pixels by which it is too high, if the page cannot be scrolled up any further; else 0.
        """
        view = self._views[item]
        if not self._measure(item, view):
            return 0
        with self._changing():
            self._put(item, view)
        aim = self._heights.top(self._places[item]) + widget.mapTo(view, QPoint()).y() - height
        value = max(0, aim)
        self._slack = max(0, value + self.viewport().height() - self._length)
        self._arrange((self._items[0], value))
        self._note_end()
        return value - aim

    def _go_to_end(self) -> None:
        self._arrange((self._items[0], self.verticalScrollBar().value()))
        self._go_to(max(0, self._length - self.viewport().height()))

    def _go_to(self, value: int) -> None:
        with self._changing():
            self.verticalScrollBar().setValue(value)
        self._fill()
        self._trim_slack()

    @Slot()
    def _moved(self) -> None:
        """Handles a scroll by the user, or by Qt to show the focus. A change sets the position itself."""
        if self._changes:
            return
        self._trim_slack()
        self._note_end()
        self._fill()

    def _note_end(self) -> None:
        """Notes whether the end is visible, so that it is kept visible from now on."""
        bar = self.verticalScrollBar()
        self._at_end = bar.value() >= bar.maximum() - NEAR_END

    def _trim_slack(self) -> None:
        """Removes the empty space below the last part that is no longer visible."""
        if self._slack:
            needed = max(0, self.verticalScrollBar().value() + self.viewport().height() - self._length)
            if needed < self._slack:
                self._slack = needed
                self._resize_column()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Marks a change, during which Qt's reports are postponed."""
        self._changes += 1
        try:
            yield
        finally:
            self._changes -= 1

    @Slot()
    def _catch_up(self) -> None:
        """Handles what Qt reported during a change."""
        if self._room != self._page_size():
            self._fit(None if self._at_end else self._anchor())
        self._measure_views()
        self._make_neighbours(QApplication.focusWidget())

    @property
    def _length(self) -> int:
        """Height of all parts and of the covered area, in pixels."""
        return self._heights.total + self._covered

    def _anchor(self) -> tuple[Hashable, int] | None:
        """Returns the first visible part and how far below its top the page begins; None without parts."""
        if not self._items:
            return None
        value = self.verticalScrollBar().value()
        bottom = value + self.viewport().height()
        shown = self._heights.between(value, bottom)
        # A part whose top is visible is a better anchor than one cut off by the page's top.
        place = next((place for place in shown if self._heights.top(place) >= value), shown[0])
        if self._heights.top(place) > bottom - NEAR_END:
            place = shown[0]
        return self._items[place], value - self._heights.top(place)

    def _span(self) -> tuple[int, int]:
        """Returns the left edge and width of the parts, the same with and without the scroll bar."""
        room = self.width() - self.verticalScrollBar().sizeHint().width()
        width = max(120, min(room - 2 * SIDE, self._most_width()))
        return (room - width) // 2, width

    def _page_size(self) -> tuple[int, int]:
        """Returns the width and height of the page, the same with and without the scroll bar."""
        return self.width(), self.viewport().height()

    def _fit(self, anchor: tuple[Hashable, int] | None) -> None:
        """Lays out all parts for another page size, which may change their heights."""
        with self._changing():
            self._room = self._page_size()
            self._slack = 0
            self._estimate()
            for item, view in self._views.items():
                self._measure(item, view)
            self._arrange(anchor)
            self._note_end()

    def _estimate(self) -> None:
        _, width = self._span()
        if width != self._known_width:
            self._known.clear()
            self._known_width = width
        self._heights = Heights([self._known.get(item) or self._guess(item, width) for item in self._items])

    def _arrange(self, anchor: tuple[Hashable, int] | None) -> None:
        """Places everything so that the anchor stays where it was, or without one the end is visible."""
        with self._changing():
            for _ in range(4):  # parts that become visible have other heights than estimated
                self._resize_column()
                bar = self.verticalScrollBar()
                bar.setValue(
                    bar.maximum() if anchor is None else self._heights.top(self._places[anchor[0]]) + anchor[1]
                )
                if not self._realise_shown():
                    break
            self._resize_column()
            self._place_views()
            self._idle.start()

    def _resize_column(self) -> None:
        page = self.viewport().height()
        height = max(self._length + self._slack, page)
        with self._changing():
            bar = self.verticalScrollBar()
            bar.setRange(0, max(0, height - page))  # Qt would do so only later; the bar appears or disappears now
            bar.setPageStep(page)
            self._column.resize(self.viewport().width(), height)

    def _fill(self) -> None:
        """Makes the widgets that became visible, and schedules those nearby for idle time."""
        anchor = self._anchor()
        if self._realise_shown() and anchor is not None:
            self._arrange(anchor)
        self._idle.start()

    def _realise_shown(self) -> bool:
        """Makes the widgets of visible parts. Returns True if a height differs from its estimate."""
        changed = False
        for place in self._within(0):
            item = self._items[place]
            if item not in self._views:
                changed |= self._realise(item)
        return changed

    def _realise(self, item: Hashable) -> bool:
        """Makes a part's widget. Returns True if its height differs from its estimate."""
        with self._changing():
            view = self._make(item)
            self._views[item] = view
            view.setParent(self._column)
            self._chain(item, view)
            changed = self._measure(item, view)
            view.show()
            self._put(item, view)
        return changed

    def _measure(self, item: Hashable, view: QWidget) -> bool:
        _, width = self._span()
        height = view.heightForWidth(width) if view.hasHeightForWidth() else view.sizeHint().height()
        self._known[item] = height
        return self._heights.set(self._places[item], height)

    @Slot()
    def _measure_views(self) -> None:
        """Measures all widgets, one of which may have asked for another height."""
        if self._changes:
            self._late.start()
            return
        anchor = None if self._at_end else self._anchor()
        value = self.verticalScrollBar().value() if self._slack else None
        changed = False
        with self._changing():
            for item, view in self._views.items():
                changed |= self._measure(item, view)
        if not changed:
            self._place_views()
            return
        if value is not None and self._items:
            self._slack = max(0, value + self.viewport().height() - self._length)
            anchor = (self._items[0], value) if self._slack else anchor
        if anchor is None and self._items:
            self._go_to_end()
        else:
            self._arrange(anchor)

    def _place_views(self) -> None:
        with self._changing():
            for item, view in self._views.items():
                self._put(item, view)

    def _put(self, item: Hashable, view: QWidget) -> None:
        left, width = self._span()
        place = self._places[item]
        view.setGeometry(left, self._heights.top(place), width, self._heights.height(place))

    def _chain(self, item: Hashable, view: QWidget) -> None:
        """Sets the tab order of a part's controls: after the part above, whenever each was made."""
        place = self._places[item]
        before = [known for known in self._views if self._places[known] < place]
        first: QWidget = self
        if before:
            stops = self._stops(self._views[max(before, key=self._places.__getitem__)])
            first = stops[-1] if stops else self
        chain_tabs(first, self._stops(view))

    def rechain(self, item: Hashable) -> None:
        """Updates the tab order after the controls of a part changed."""
        if item in self._views:
            self._chain(item, self._views[item])

    @Slot()
    def _work(self) -> None:
        """Makes the widget of a nearby part, or deletes widgets far away. Called in idle time."""
        item = self._next_near()
        if item is None:
            self._give_up_far()
        else:
            self.realise(item)
            self._idle.start()

    def _next_near(self) -> Hashable | None:
        """Returns the nearest part without a widget; None if all nearby parts have one."""
        if not self._items:
            return None
        middle = self._heights.at(self.verticalScrollBar().value() + self.viewport().height() // 2)
        missing = [place for place in self._within(NEAR) if self._items[place] not in self._views]
        return self._items[min(missing, key=lambda place: abs(place - middle))] if missing else None

    def _within(self, pages: float) -> range:
        """Returns the indices of the visible parts and of those up to so many pages away."""
        value, page = self.verticalScrollBar().value(), self.viewport().height()
        reach = int(pages * page)
        return self._heights.between(max(0, value - reach), value + page + reach)

    def _give_up_far(self) -> None:
        if len(self._views) <= FEW_WIDGETS:
            return
        kept = self._within(FAR)
        focus = QApplication.focusWidget()
        for item in list(self._views):
            place = self._places[item]
            view = self._views[item]
            if place in kept or place == len(self._items) - 1 or (focus is not None and view.isAncestorOf(focus)):
                continue
            if not getattr(view, "stays", False):
                self._discard(self._views.pop(item))

    def _discard(self, view: QWidget) -> None:
        with self._changing():
            focus = QApplication.focusWidget()
            if focus is not None and view.isAncestorOf(focus):
                self.setFocus()  # else Qt focuses a control of another part and scrolls to it
            discard(view)

    def resizeEvent(self, event: QResizeEvent) -> None:
        anchor = None if self._at_end else self._anchor()
        with self._changing():
            super().resizeEvent(event)
        if self._changes:
            self._late.start()
        elif self._room != self._page_size():
            self._fit(anchor)
        else:  # only the scroll bar appeared or disappeared, and the parts leave space for it
            self._resize_column()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar = self.verticalScrollBar()
        if event.key() == Qt.Key.Key_Home:
            bar.setValue(0)
        elif event.key() == Qt.Key.Key_End:
            bar.setValue(bar.maximum())
        else:
            super().keyPressEvent(event)

    @Slot(QWidget, QWidget)
    def _focus_moved(self, _before: QWidget | None, now: QWidget | None) -> None:
        if self._changes:
            self._late.start()
        else:
            self._make_neighbours(now)

    def _make_neighbours(self, focus: QWidget | None) -> None:
        """Makes the widgets next to the part with the focus, so that Tab can move on to them."""
        if focus is None or not self._column.isAncestorOf(focus):
            return
        place = next((self._places[item] for item, view in self._views.items() if view.isAncestorOf(focus)), None)
        if place is not None:
            near = self._items[max(0, place - 1) : place + 2]
            for item in near:
                self.realise(item)

"""The top bar: the name, the places, the model, and the buttons of both side panels."""

from __future__ import annotations

import functools

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSizePolicy, QToolButton, QWidget

from app.context import CHAT
from app.design.controls import label
from app.design.fonts import px
from app.system.i18n import tr
from app.window.model_list import ModelList
from app.window.pages import BY_NAME, PAGES, PLACES

HEIGHT = 52  # pixels, at least
AROUND = 8  # pixels above and below the tallest part
ROOM_FOR_FACTS = 1130  # pixels at 100 %
ROOM_FOR_NAME = 880
ROOM_FOR_PLACES = 720  # pixels at 100 %; below this width the places are a menu
ROOM_FOR_TOOLS = 420  # pixels at 100 %; below this width sampler and settings are in it, too
WIDE_GAP, NARROW_GAP = 8, 2
LEAST_CHOOSER = 120  # pixels at 100 %


def _tool(text: str, name: str, tip: str, *, checkable: bool = True) -> QToolButton:
    made = QToolButton()
    made.setProperty("role", "quiet")
    made.setText(text)
    made.setCheckable(checkable)
    made.setAccessibleName(name)
    made.setAccessibleDescription(tip)
    made.setToolTip(tip)
    made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return made


class TopBar(QWidget):
    """Emits the user's choices; the ``show_*`` methods display values without emitting."""

    page_chosen = Signal(str)
    sidebar_toggled = Signal(bool)
    strip_toggled = Signal(bool)
    settings_asked = Signal()
    resized = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("topbar")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.sidebar = _tool("☰", tr("Conversations"), tr("Show or hide the conversations (Ctrl+B)"))
        keeping = self.sidebar.sizePolicy()
        keeping.setRetainSizeWhenHidden(True)  # nothing moves when it is hidden outside the chat
        self.sidebar.setSizePolicy(keeping)
        self.sidebar.toggled.connect(self.sidebar_toggled)
        self.places = {
            entry.name: _tool(
                tr(entry.place), tr(entry.place), tr("{purpose} ({key})", purpose=tr(entry.purpose), key=entry.key)
            )
            for entry in PLACES
        }
        for page, tool in self.places.items():  # not a button group, of which Tab reaches only one button
            tool.clicked.connect(functools.partial(self._choose_page, page))
        self.place_menu = _tool("", tr("Place"), tr("Choose a place"), checkable=False)
        self.place_menu.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.place_menu)
        for entry in PLACES:
            menu.addAction(tr(entry.place), functools.partial(self._choose_page, entry.name))
        self._tools_in_menu = [
            menu.addSeparator(),
            menu.addAction(tr("Sampler"), self._toggle_strip),
            menu.addAction(tr("Settings"), self.settings_asked.emit),
        ]
        self.place_menu.setMenu(menu)
        self.chooser = ModelList()
        self.facts = label("", "caption")
        self.strip = _tool(tr("Sampler"), tr("Sampler"), tr("Show or hide the sampler (Ctrl+Shift+S)"))
        self.strip.toggled.connect(self.strip_toggled)
        self.settings = _tool(tr("Settings"), tr("Settings"), tr("Open the settings (Ctrl+,)"), checkable=False)
        self.settings.clicked.connect(self.settings_asked)

        self._row = row = QHBoxLayout(self)
        row.setContentsMargins(12, 0, 16, 0)
        row.setSpacing(WIDE_GAP)
        self._mark = label("●", "mark")
        self._mark.setAccessibleName("")
        self._name = label("Safelight", "wordmark")
        for widget in (self.sidebar, self._mark, self._name):
            row.addWidget(widget)
        row.addSpacing(8)
        for tool in self.places.values():
            row.addWidget(tool)
        row.addWidget(self.place_menu)
        row.addSpacing(8)
        row.addWidget(self.chooser)
        row.addSpacing(4)
        row.addWidget(self.facts)
        row.addStretch(1)
        row.addWidget(self.strip)
        row.addWidget(self.settings)
        self.show_page(CHAT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
        self.resized.emit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:  # the size of all text was changed
            self._fit()

    def _fit(self) -> None:
        """Hides the parts that do not fit."""
        self.setFixedHeight(max(HEIGHT, self.chooser.sizeHint().height() + 2 * AROUND))
        self.chooser.setMinimumWidth(px(LEAST_CHOOSER))
        self.facts.setVisible(self.width() >= px(ROOM_FOR_FACTS))
        has_room = self.width() >= px(ROOM_FOR_NAME)
        for part in (self._mark, self._name):
            part.setVisible(has_room)
        self._row.setSpacing(WIDE_GAP if has_room else NARROW_GAP)
        metrics, menu = self.place_menu.fontMetrics(), self.place_menu
        around = menu.sizeHint().width() - metrics.horizontalAdvance(menu.text())
        widest = max(metrics.horizontalAdvance(f"{tr(entry.title)} ▾") for entry in PAGES)
        menu.setFixedWidth(widest + around)  # so that nothing moves with the name of the page
        has_room = self.width() >= px(ROOM_FOR_PLACES)
        for tool in self.places.values():
            tool.setVisible(has_room)
        self.place_menu.setVisible(not has_room)
        has_room = self.width() >= px(ROOM_FOR_TOOLS)
        for tool in (self.strip, self.settings):
            tool.setVisible(has_room)
        for action in self._tools_in_menu:
            action.setVisible(not has_room)

    def show_page(self, page: str) -> None:
        """Highlights the place of a page, and shows what belongs to the chat alone only there."""
        entry = BY_NAME[page]
        for name, tool in self.places.items():
            tool.setChecked(BY_NAME[name].place == entry.place)
        self.place_menu.setText(f"{tr(entry.place or entry.title)} ▾")
        self.sidebar.setVisible(page == CHAT)

    def open_chooser(self) -> None:
        """Opens the list of models."""
        self.chooser.setFocus()
        self.chooser.showPopup()

    def _toggle_strip(self) -> None:
        self.strip.toggle()

    def _choose_page(self, page: str) -> None:
        self.show_page(page)
        self.page_chosen.emit(page)

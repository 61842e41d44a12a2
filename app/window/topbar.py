"""The top bar: the name, the pages, the model, and the buttons of both side panels."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSizePolicy, QToolButton, QWidget

from app.context import CHAT
from app.design.choice_box import ChoiceBox
from app.design.controls import label
from app.design.fonts import px
from app.system.i18n import tr
from app.window.pages import PAGES
from engine.catalog import AUTO, AUTO_TITLE, installed

HEIGHT = 52
ROOM_FOR_FACTS = 1330  # pixels at 100 %
ROOM_FOR_NAME = 1160
ROOM_FOR_PAGES = 980  # pixels at 100 %; below this width the pages are a menu
WIDE_GAP, NARROW_GAP = 8, 2
OPEN_FOLDER = "open-folder"  # data of the chooser's last entry


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
    model_chosen = Signal(str)  # an embedded model's id or a folder
    folder_asked = Signal()
    sidebar_toggled = Signal(bool)
    strip_toggled = Signal(bool)
    settings_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("topbar")
        self.setFixedHeight(HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.sidebar = _tool("☰", tr("Conversations"), tr("Show or hide the conversations (Ctrl+B)"))
        self.sidebar.toggled.connect(self.sidebar_toggled)
        self.pages = {
            entry.name: _tool(
                tr(entry.title), tr(entry.title), tr("{purpose} ({key})", purpose=tr(entry.purpose), key=entry.key)
            )
            for entry in PAGES
        }
        for page, tool in self.pages.items():  # not a button group, of which Tab reaches only one button
            tool.clicked.connect(functools.partial(self._choose_page, page))
        self.page_menu = _tool("", tr("Page"), tr("Choose a page"), checkable=False)
        self.page_menu.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.page_menu)
        for entry in PAGES:
            menu.addAction(tr(entry.title), functools.partial(self._choose_page, entry.name))
        self.page_menu.setMenu(menu)
        self.chooser = ChoiceBox()
        self.chooser.setAccessibleName(tr("Model"))
        self.chooser.setAccessibleDescription(tr("Which model answers (Ctrl+M)"))
        self.chooser.setToolTip(tr("Which model answers (Ctrl+M)"))
        self.chooser.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.chooser.setMinimumContentsLength(16)
        self.chooser.setPlaceholderText(tr("No model"))
        self.chooser.activated.connect(self._choose)
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
        for tool in self.pages.values():
            row.addWidget(tool)
        row.addWidget(self.page_menu)
        row.addSpacing(8)
        row.addWidget(self.chooser)
        row.addSpacing(4)
        row.addWidget(self.facts)
        row.addStretch(1)
        row.addWidget(self.strip)
        row.addWidget(self.settings)
        self._shown = ("", "")  # the model's id or folder, and its title
        self.offer_models(())
        self.show_page(CHAT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:  # the size of all text was changed
            self._fit()

    def _fit(self) -> None:
        """Hides the parts that do not fit."""
        self.facts.setVisible(self.width() >= px(ROOM_FOR_FACTS))
        has_room = self.width() >= px(ROOM_FOR_NAME)
        for part in (self._mark, self._name):
            part.setVisible(has_room)
        self._row.setSpacing(WIDE_GAP if has_room else NARROW_GAP)
        has_room = self.width() >= px(ROOM_FOR_PAGES)
        for tool in self.pages.values():
            tool.setVisible(has_room)
        self.page_menu.setVisible(not has_room)

    def show_page(self, page: str) -> None:
        for name, tool in self.pages.items():
            tool.setChecked(name == page)
            if name == page:
                self.page_menu.setText(f"{tool.text()} ▾")

    def offer_models(self, others: Sequence[tuple[str, str]]) -> None:
        """Lists the embedded models and these, each a folder and a title; the selection stays."""
        self.chooser.clear()
        automatic = (tr(AUTO_TITLE), AUTO, tr("each prompt goes to the small model that was made for it"))
        for title, id, purpose in (automatic, *((model.title, model.id, tr(model.purpose)) for model in installed())):
            self.chooser.addItem(title, id)
            self.chooser.setItemData(self.chooser.count() - 1, purpose, Qt.ItemDataRole.ToolTipRole)
        embedded = {model.id for model in installed()}
        for path, name in others:
            if path not in embedded:
                self.chooser.addItem(name, path)
        self.chooser.insertSeparator(self.chooser.count())
        self.chooser.addItem(tr("Open a folder…"), OPEN_FOLDER)
        self.show_model(*self._shown)

    def show_model(self, path_or_id: str, title: str) -> None:
        """Shows which model is loaded or being loaded; an unknown folder is added to the list. Empty: no model."""
        self._shown = path_or_id, title
        index = self.chooser.findData(path_or_id) if path_or_id else -1
        if index < 0 and path_or_id:
            index = len(installed()) + 1
            self.chooser.insertItem(index, title, path_or_id)
        self.chooser.setCurrentIndex(index)

    def open_chooser(self) -> None:
        """Opens the list of models."""
        self.chooser.setFocus()
        self.chooser.showPopup()

    @Slot(int)
    def _choose(self, index: int) -> None:
        chosen = self.chooser.itemData(index)
        if chosen == OPEN_FOLDER:
            self.show_model(*self._shown)  # the selection is restored until a folder is chosen
            self.folder_asked.emit()
        elif chosen != self._shown[0]:
            self.model_chosen.emit(chosen)

    def _choose_page(self, page: str) -> None:
        self.show_page(page)
        self.page_chosen.emit(page)

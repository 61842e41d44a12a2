"""The top bar: the name, the places, the model, and the buttons of both side panels."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt, Signal, Slot
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QMenu,
    QSizePolicy,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolButton,
    QWidget,
)

from app.context import CHAT
from app.design import themes
from app.design.controls import ChoiceBox, introduce, label
from app.design.fonts import TEXT_BODY, TEXT_SMALL, px, ui_font
from app.design.layouts import STRETCH, Gap, row_of
from app.design.tokens import color
from app.system.i18n import tr
from app.window.pages import BY_NAME, PAGES, PLACES
from engine import PUBLISHED
from engine.catalog import SMALL, SMALL_TITLE, installed
from engine.service import is_remote

Index = QModelIndex | QPersistentModelIndex
PURPOSE = Qt.ItemDataRole.UserRole + 1
ONE_BY_ONE, MANAGE, OPEN_FOLDER = "one-by-one", "manage-models", "open-folder"  # data of the last entries
SIDE, ABOVE, SEPARATOR = 12, 5, 9  # pixels at 100 %
MAX_ENTRY_WIDTH = 520  # pixels of an entry's texts at 100 %
TOPBAR_HEIGHT = 52  # pixels, at least
AROUND = 8  # pixels above and below the tallest part
ROOM_FOR_FACTS = 1130  # pixels at 100 %
ROOM_FOR_NAME = 880
ROOM_FOR_PLACES = 720  # pixels at 100 %; below this width the places are a menu
ROOM_FOR_TOOLS = 420  # pixels at 100 %; below this width sampler and settings are in it, too
WIDE_GAP, NARROW_GAP = 8, 2
LEAST_CHOOSER = 120  # pixels at 100 %


class ModelDelegate(QStyledItemDelegate):
    """Paints an entry's title, and its purpose in a smaller line below."""

    def __init__(self, box: ChoiceBox) -> None:
        super().__init__(box)
        self._box = box

    def sizeHint(self, _option: QStyleOptionViewItem, index: Index) -> QSize:
        if _is_separator(index):
            return QSize(0, px(SEPARATOR))
        lines = [QFontMetrics(font) for font, _ in _lines(index)]
        widths = (line.horizontalAdvance(text) for line, (_, text) in zip(lines, _lines(index), strict=True))
        screen = self._box.screen().availableSize()
        width = min(max(widths) + 4, px(MAX_ENTRY_WIDTH), screen.width() - 4 * px(SIDE))
        return QSize(width + 2 * px(SIDE), sum(line.height() for line in lines) + 2 * px(ABOVE))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        theme, place = themes.current(), option.rect
        painter.save()
        if _is_separator(index):
            painter.fillRect(QRect(place.x(), place.center().y(), place.width(), 1), color(theme.line))
        elif is_chosen := bool(option.state & QStyle.StateFlag.State_Selected):
            painter.fillRect(place, color(theme.selection))
        if not _is_separator(index):
            room = place.adjusted(px(SIDE), px(ABOVE), -px(SIDE), 0)
            for line, (font, text) in enumerate(_lines(index)):
                metrics = QFontMetrics(font)
                painter.setFont(font)
                # faint ink lacks contrast on the selection
                painter.setPen(color(theme.faint_ink if line and not is_chosen else theme.ink))
                room.setHeight(metrics.height())
                shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room.width())
                painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine, shown)
                room.translate(0, metrics.height())
        painter.restore()


def _is_separator(index: Index) -> bool:
    return bool(index.data(Qt.ItemDataRole.AccessibleDescriptionRole) == "separator")  # as ``insertSeparator`` marks it


def _lines(index: Index) -> Iterator[tuple[QFont, str]]:
    """Returns the texts of an entry with their fonts."""
    for pixels, role in ((TEXT_BODY, Qt.ItemDataRole.DisplayRole), (TEXT_SMALL, PURPOSE)):
        if text := index.data(role):
            font = ui_font()
            font.setPixelSize(px(pixels))
            yield font, text


class ModelList(ChoiceBox):
    """Emits the user's choices; ``offer_models`` and ``show_model`` emit nothing."""

    model_chosen = Signal(str)  # an embedded model's id or a folder
    manage_asked = Signal()
    folder_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        tip = tr("The model that answers (Ctrl+M)")
        introduce(self, tr("Model"), tip, tip=tip)
        self.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(16)
        self.setPlaceholderText(tr("No model"))
        self.setItemDelegate(ModelDelegate(self))
        self.activated.connect(self._choose)
        self._shown = ("", "")  # the model's id or folder, and its title
        self._others: Sequence[tuple[str, str]] = ()
        self._is_open = False  # the small models are listed one by one
        self.offer_models(())

    def offer_models(self, others: Sequence[tuple[str, str]]) -> None:
        """Lists the small models and these, each a folder and a title; the selection stays."""
        self._others = others
        self._fill()

    def _fill(self) -> None:
        small = {model.id: model for model in installed()}
        self.clear()
        self._add(0, tr(SMALL_TITLE), SMALL, tr("each prompt goes to the one that was made for it"))
        for path, title in self._others:
            if path not in small and self.findData(path) < 0:
                self._add(self.count(), title, path, purpose_of(path, title))
        if self._is_open or self._shown[0] in small:
            for model in small.values():
                self._add(self.count(), model.title, model.id, tr(model.purpose))
        else:
            self._add(self.count(), tr("The small models one by one…"), ONE_BY_ONE, tr("to load one of them alone"))
        self.insertSeparator(self.count())
        self._add(self.count(), tr("Manage models…"), MANAGE, tr("download, import or convert; local server"))
        self._add(self.count(), tr("Open a folder…"), OPEN_FOLDER, tr("load a model from a folder on this computer"))
        self.show_model(*self._shown)

    def _add(self, place: int, title: str, data: str, purpose: str) -> None:
        purpose = purpose[:1].upper() + purpose[1:]
        self.insertItem(place, title, data)
        self.setItemData(place, purpose, PURPOSE)
        self.setItemData(place, purpose, Qt.ItemDataRole.ToolTipRole)
        self.setItemData(place, f"{title}, {purpose}", Qt.ItemDataRole.AccessibleTextRole)

    def show_model(self, path_or_id: str, title: str) -> None:
        """Shows which model is loaded or being loaded; an unknown folder is added to the list. Empty: no model."""
        self._shown = path_or_id, title
        if self.findData(path_or_id) < 0 and any(model.id == path_or_id for model in installed()):
            self._fill()  # which shows it
            return
        place = self.findData(path_or_id) if path_or_id else -1
        if place < 0 and path_or_id:
            place = self.findData(MANAGE) - 1  # before the separator
            self._add(place, title, path_or_id, purpose_of(path_or_id, title))
        self.setCurrentIndex(place)

    @Slot(int)
    def _choose(self, place: int) -> None:
        chosen = self.itemData(place)
        if chosen == ONE_BY_ONE:
            self._is_open = True
            self._fill()
            self.showPopup()
        elif chosen in (MANAGE, OPEN_FOLDER):
            self.show_model(*self._shown)  # the selection is restored until another model is chosen
            (self.manage_asked if chosen == MANAGE else self.folder_asked).emit()
        elif chosen != self._shown[0]:
            self.model_chosen.emit(chosen)


def purpose_of(path: str, title: str) -> str:
    """Returns a line about a model that does not come with the app: what it is for, or where it is."""
    if is_remote(path):
        return tr("use a model on another machine")
    known = next((model.purpose for model in PUBLISHED if model.title == title), "")
    if known:
        return tr(known)
    folder, home = Path(path), Path.home()
    return f"~/{folder.relative_to(home).as_posix()}" if folder.is_relative_to(home) else str(folder)


def _tool(text: str, name: str, tip: str, *, checkable: bool = True) -> QToolButton:
    made = introduce(QToolButton(), name, tip, tip=tip, role="quiet")
    made.setText(text)
    made.setCheckable(checkable)
    made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return made


class TopBar(QWidget):
    """Emits the user's choices; the ``show_*`` methods display values without emitting."""

    page_chosen = Signal(str)
    resized = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("topbar")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.sidebar = _tool("☰", tr("Conversations"), tr("Show or hide the conversations (Ctrl+B)"))
        keeping = self.sidebar.sizePolicy()
        keeping.setRetainSizeWhenHidden(True)  # nothing moves when it is hidden outside the chat
        self.sidebar.setSizePolicy(keeping)
        self.places = {
            entry.name: _tool(
                tr(entry.place), tr(entry.place), tr("{purpose} ({key})", purpose=tr(entry.purpose), key=entry.key)
            )
            for entry in PLACES
        }
        for page, tool in self.places.items():  # not a button group, of which Tab reaches only one button
            tool.clicked.connect(functools.partial(self._choose_page, page))
        self.chooser = ModelList()
        self.facts = label("", "caption")
        self.strip = _tool(tr("Sampler"), tr("Sampler"), tr("Show or hide the sampler (Ctrl+Shift+S)"))
        self.settings = _tool(tr("Settings"), tr("Settings"), tr("Open the settings (Ctrl+,)"), checkable=False)
        self.settings_asked = self.settings.clicked
        self.place_menu = _tool("", tr("Place"), tr("Choose a place"), checkable=False)
        self.place_menu.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.place_menu)
        for entry in PLACES:
            menu.addAction(tr(entry.place), functools.partial(self._choose_page, entry.name))
        self._tools_in_menu = [
            menu.addSeparator(),
            menu.addAction(tr("Sampler"), self.strip.toggle),
            menu.addAction(tr("Settings"), self.settings.click),
        ]
        self.place_menu.setMenu(menu)
        self._mark = label("●", "mark", name="")
        self._name = label("Safelight", "wordmark")
        places, tools = (*self.places.values(), self.place_menu), (self.strip, self.settings)
        first = row_of(self.sidebar, self._mark, self._name, Gap(8), *places, Gap(8), self.chooser)
        self._row = row_of(first, Gap(4), self.facts, STRETCH, *tools, margins=(12, 0, 16, 0), spacing=WIDE_GAP)
        self.setLayout(self._row)
        themes.settled.connect(self._fit)
        self.show_page(CHAT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
        self.resized.emit()

    @Slot()
    def _fit(self) -> None:
        """Hides the parts that do not fit."""
        self.setFixedHeight(max(TOPBAR_HEIGHT, self.chooser.sizeHint().height() + 2 * AROUND))
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
        self.chooser.setFocus()
        self.chooser.showPopup()

    def _choose_page(self, page: str) -> None:
        self.show_page(page)
        self.page_chosen.emit(page)

"""The list of models in the top bar. In its popup each model has a line on what it is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt, Signal, Slot
from PySide6.QtGui import QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from app.design import themes
from app.design.choice_box import ChoiceBox
from app.design.fonts import TEXT_BODY, TEXT_SMALL, px, ui_font
from app.design.tokens import color
from app.system.i18n import tr
from engine import PUBLISHED
from engine.catalog import SMALL, SMALL_TITLE, installed
from engine.service import is_remote

Index = QModelIndex | QPersistentModelIndex
PURPOSE = Qt.ItemDataRole.UserRole + 1
ONE_BY_ONE, MANAGE, OPEN_FOLDER = "one-by-one", "manage-models", "open-folder"  # data of the last entries
SIDE, ABOVE, SEPARATOR = 12, 5, 9  # pixels at 100 %
MOST_WIDTH = 520  # pixels of an entry's texts at 100 %


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
        width = min(max(widths) + 4, px(MOST_WIDTH), screen.width() - 4 * px(SIDE))
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
        self.setAccessibleName(tr("Model"))
        self.setAccessibleDescription(tip)
        self.setToolTip(tip)
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

"""The models page: the recommended model, the user's own, small ones, those to download, remote servers. Knows no
jobs and no engine."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QDir, Qt, Signal, Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFileDialog, QVBoxLayout, QWidget

from app.design.controls import button, chain_tabs, flow_of, introduce, label, show_line
from app.design.fonts import px
from app.design.layouts import STRETCH, ColumnPage, boxed, column_of, row_of
from app.design.notice import Notice
from app.models.entries import Place
from app.models.found_section import Folded, FoundSection, drop
from app.models.remote_section import RemoteSection
from app.models.rows import ModelRow
from app.models.search_section import HubSection
from app.system.i18n import tr


class Hero(QWidget):
    """Shows sentences about the computer; ``rows`` takes the row of the recommended model."""

    def __init__(self) -> None:
        super().__init__(accessibleName=tr("For this machine"))
        self.title = label(tr("For this machine"), "lead")
        self.machine = label(
            tr("Looking at this computer…"), "fact", wrap=True, selectable=True, name=tr("This computer")
        )
        self.note = label("", "setting", wrap=True, selectable=True, name=tr("About its graphics card"))
        self.note.hide()
        self.rows: QVBoxLayout = column_of()
        parts = self.title, self.machine, self.note, self.rows
        self.setLayout(column_of(*parts, margins=(0, 8, 0, 0), spacing=8))

    def describe(self, machine: str, note: str) -> None:
        """Shows what this computer is, and a sentence about its card."""
        self.machine.setText(machine)
        show_line(self.note, note)
        self.setAccessibleDescription(" ".join(filter(None, (machine, note))))


class ModelsPage(ColumnPage):
    """Shows rows in the parts of the page; a part without rows is hidden, the recommended model's never."""

    about_to_show = Signal()  # rows made once it is visible would be laid out after it is painted
    shown = Signal()
    folder_chosen = Signal(str)
    file_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        introduce(self, tr("Models"), id="models")
        self.rows: dict[str, ModelRow] = {}
        self.hero, self.small, self.experimental = Hero(), Folded(), Folded()
        self.found, self.hub, self.servers = FoundSection(), HubSection(), RemoteSection()
        self.add_server = button(
            tr("Add a remote engine…"),
            role="plain",
            tip=tr("Use a model on another machine or in another program"),
            clicked=self._show_servers,
        )
        tip = tr("Lists the model in it, or the models in folders below it; copies nothing")
        self.add = button(tr("Add a folder…"), role="plain", tip=tip, clicked=self._ask_folder)
        tip = tr("Lists a file in llama.cpp's format: most load as they are, DiffusionGemma is imported")
        self.add_file = button(tr("Add a GGUF file…"), role="plain", tip=tip, clicked=self._ask_file)
        self.place = label("", "fact", wrap=True, selectable=True, name=tr("Where models are kept"))
        self.notice = Notice()
        self.notice.float_over(self.viewport())
        self._own_rows, self._catalog_rows = column_of(spacing=8), column_of(spacing=8)
        self._own = _group(tr("On this computer"), self._own_rows)
        self._catalog = _group(tr("More models to download"), self._catalog_rows)
        self._parts: dict[Place, QVBoxLayout] = {
            "hero": self.hero.rows,
            "own": self._own_rows,
            "small": self.small.rows,
            "catalog": self._catalog_rows,
            "experimental": self.experimental.rows,
        }
        self._places: dict[str, Place] = {}
        self.hub.turned.connect(self._chain)
        self._lay_out()

    def _lay_out(self) -> None:
        adding = flow_of(self.add_server, self.add_file, self.add)
        title = label(tr("Models"), "title")
        title.setMinimumHeight(px(36))  # height of a button
        heading = row_of((title, 0, Qt.AlignmentFlag.AlignTop), STRETCH, adding, spacing=8)
        self.show_column(
            heading, self.found, self.hero, self.place, self._own, self.small, self.hub, self._catalog,
            self.experimental, self.servers,
        )  # fmt: skip

    def setVisible(self, visible: bool) -> None:
        if visible:
            self.about_to_show.emit()
        super().setVisible(visible)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.shown.emit()

    def remove_row(self, key: str) -> None:
        drop(self.rows.pop(key))

    def arrange(self, places: Mapping[str, Place]) -> None:
        """Puts the rows in their parts of the page, in order; rows that are already in place are not moved."""
        self._places = dict(places)
        nexts = dict.fromkeys(self._parts, 0)
        for key, place in places.items():
            layout, row = self._parts[place], self.rows[key]
            if layout.indexOf(row) != nexts[place]:
                layout.insertWidget(nexts[place], row)
            nexts[place] += 1
            row.set_recommended(place == "hero")
        shown = set(places.values())
        self._own.setVisible("own" in shown)
        self._catalog.setVisible("catalog" in shown)
        self.small.setVisible("small" in shown)
        self.experimental.setVisible("experimental" in shown)
        self._chain()

    @Slot()
    def _chain(self) -> None:
        stops: dict[Place, list[QWidget]] = {place: [] for place in self._parts}
        for key, place in self._places.items():
            stops[place] += self.rows[key].tab_order()
        order = [
            *self.found.tab_order(),
            *stops["hero"],
            *stops["own"],
            self.small.fold,
            *stops["small"],
            *self.hub.tab_order(),
        ]
        chain_tabs(self.add, [*order, *stops["catalog"], self.experimental.fold, *stops["experimental"]])

    def show_hero(self) -> None:
        """Scrolls to the recommended model and focuses its row, which gives the focus to its main button."""
        self.verticalScrollBar().setValue(0)
        best = next((self.rows[key] for key, place in self._places.items() if place == "hero"), self)
        best.setFocus()

    @Slot()
    def _show_servers(self) -> None:
        self.ensureWidgetVisible(self.servers)
        self.servers.address.setFocus()

    @Slot()
    def _ask_folder(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, tr("Add a model folder"), QDir.homePath())
        if chosen:
            self.folder_chosen.emit(chosen)

    @Slot()
    def _ask_file(self) -> None:
        kinds = tr("GGUF files") + " (*.gguf *.GGUF);;" + tr("All files") + " (*)"  # a blob has no ending
        chosen, _ = QFileDialog.getOpenFileName(self, tr("Add a GGUF file"), QDir.homePath(), kinds)
        if chosen:
            self.file_chosen.emit(chosen)


def _group(title: str, rows: QVBoxLayout) -> QWidget:
    """Returns a part of the page: its heading and its rows."""
    return boxed(column_of(label(title, "group"), rows, margins=(0, 16, 0, 0), spacing=8))

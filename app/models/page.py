"""The models page: models in groups, and remote servers below them. Knows no jobs and no engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFileDialog, QVBoxLayout, QWidget

from app.design.column_page import ColumnPage
from app.design.controls import button, chain_tabs, flow_of, label
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.design.notice import Notice
from app.models.entries import Group
from app.models.remote_section import RemoteSection
from app.models.rows import ModelRow
from app.models.words import group_title
from app.system.i18n import tr


class ModelsPage(ColumnPage):
    """Shows rows under the headings of their groups; a group without rows is hidden."""

    about_to_show = Signal()  # rows made once it is visible would be laid out after it is painted
    shown = Signal()
    folder_chosen = Signal(str)
    file_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("models")
        self.setAccessibleName(tr("Models"))
        self.rows: dict[str, ModelRow] = {}
        self.servers = RemoteSection()
        self.add_server = button(
            tr("Add a remote engine…"), role="plain", tip=tr("Lets a model answer that another program or machine runs")
        )
        self.add = button(tr("Add a folder…"), role="plain", tip=tr("Lists a model folder where it is; copies nothing"))
        tip = tr("Lists a file in llama.cpp's format, and what its import would take")
        self.add_file = button(tr("Import a GGUF…"), role="plain", tip=tip, clicked=self._ask_file)
        self.place = label("", "fact", wrap=True, selectable=True)
        self.place.setAccessibleName(tr("Where models are kept"))
        self.notice = Notice()
        self.notice.float_over(self.viewport())
        self.add_server.clicked.connect(self._show_servers)
        self.add.clicked.connect(self._ask_folder)
        self._groups: dict[Group, tuple[QWidget, QVBoxLayout]] = {}
        self._lay_out()

    def _lay_out(self) -> None:
        adding = flow_of(self.add_server, self.add_file, self.add)
        title = label(tr("Models"), "title")
        title.setMinimumHeight(px(36))  # height of a button
        for group in get_args(Group):
            rows = column_of(label(group_title(group), "group"), margins=(0, 16, 0, 0), spacing=8)
            self._groups[group] = (boxed(rows), rows)
        heading = row_of((title, 0, Qt.AlignmentFlag.AlignTop), STRETCH, adding, spacing=8)
        self.show_column(heading, self.place, *(box for box, _ in self._groups.values()), self.servers)

    def setVisible(self, visible: bool) -> None:
        if visible:
            self.about_to_show.emit()
        super().setVisible(visible)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.shown.emit()

    def remove_row(self, key: str) -> None:
        row = self.rows.pop(key)
        row.hide()
        row.setParent(None)
        row.deleteLater()

    def arrange(self, keys: Iterable[str]) -> None:
        """Puts the rows in order; rows that are already in place are not moved."""
        rows = [self.rows[key] for key in keys]
        places = dict.fromkeys(self._groups, 1)  # the first row comes after the heading
        for row in rows:
            group = row.entry.group
            layout = self._groups[group][1]
            if layout.indexOf(row) != places[group]:
                layout.insertWidget(places[group], row)
            places[group] += 1
        for group, (box, _) in self._groups.items():
            box.setVisible(places[group] > 1)
        chain_tabs(self.add, [control for row in rows for control in row.tab_order()])

    @Slot()
    def _show_servers(self) -> None:
        self.ensureWidgetVisible(self.servers)
        self.servers.address.setFocus()

    @Slot()
    def _ask_folder(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, tr("Add a model folder"))
        if chosen:
            self.folder_chosen.emit(chosen)

    @Slot()
    def _ask_file(self) -> None:
        kinds = tr("GGUF files") + " (*.gguf *.GGUF)"
        chosen, _ = QFileDialog.getOpenFileName(self, tr("Import a GGUF file"), "", kinds)
        if chosen:
            self.file_chosen.emit(chosen)

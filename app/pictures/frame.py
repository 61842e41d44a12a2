"""The frame of a text field that takes pictures, which are pasted, dropped or chosen and shown above the text."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QDir, Signal, Slot
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent, QImage
from PySide6.QtWidgets import QFileDialog, QFrame

from app.design.controls import button, restyle
from app.design.drops import accept_drag, take_drop
from app.design.layouts import column_of
from app.design.text_field import TextField
from app.pictures.bar import PictureBar, refusal_of
from app.pictures.files import Pasted
from app.system.i18n import tr


class PictureFrame(QFrame):
    """A framed field. Its creator adds ``field`` and the button ``choose`` to the layout ``inside``."""

    said = Signal(str)  # a message that pictures are being read or why some were refused; empty if all were taken

    def __init__(self, field: TextField) -> None:
        super().__init__()
        self.setProperty("role", "field")
        self.setAcceptDrops(True)
        self.field = field
        field.takes_files = True
        field.files_pasted.connect(self.add)
        field.picture_pasted.connect(self._add_one)
        self.pictures = PictureBar()
        self.pictures.emptied.connect(field.setFocus)
        self.pictures.refused.connect(self._say_refused)
        self.choose = button(
            tr("Picture…"), tr("Add pictures"), tip=tr("Add pictures; you can also drop or paste them")
        )
        self.choose.clicked.connect(self.choose_files)
        self.inside = column_of(self.pictures, margins=(12, 8, 8, 8), spacing=8)
        self.setLayout(self.inside)

    @Slot(object)
    def add(self, sources: Sequence[Pasted]) -> None:
        """Reads pictures and shows them; ``said`` reports progress and errors."""
        self.said.emit(tr("Reading the picture…"))
        self.pictures.add(sources)

    @Slot()
    def choose_files(self) -> None:
        paths, _ = QFileDialog.getOpenFileNames(self, tr("Add pictures"), QDir.homePath())
        if paths:
            self.add(paths)
        self.field.setFocus()

    @Slot(bool)
    def mark_active(self, active: bool) -> None:
        """Shows whether the field has the focus or a drag is over it."""
        restyle(self, "active", active)

    @Slot(object)
    def _add_one(self, image: QImage) -> None:
        self.add([image])

    @Slot(object)
    def _say_refused(self, problems: Sequence[str]) -> None:
        self.said.emit(refusal_of(problems))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if accept_drag(event):
            self.mark_active(True)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        accept_drag(event)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self.mark_active(self.field.hasFocus())
        super().dragLeaveEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        self.mark_active(self.field.hasFocus())
        take_drop(event, self.add, self._add_one, self.said.emit)
        self.field.setFocus()

"""Shows in the settings what is kept on the disk, where, and how large it is. Sizes are read in a thread."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from PySide6.QtCore import QUrl, Slot
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from app.bridge.background import Background
from app.design.controls import button, label
from app.design.layouts import STRETCH, column_of, row_of
from app.library.library import KEPT_DAYS
from app.library.pictures import FOLDER
from app.system.folders import Folders, ensure
from app.system.i18n import tr
from app.system.memory_use import size
from engine import SafelightError

LIBRARY = "library*"  # the library's files, those of a damaged one, and what could not be saved


class Storage(QWidget):
    """Looks at the folders each time it is shown."""

    def __init__(self, folders: Folders) -> None:
        super().__init__()
        self.setObjectName("storage")
        self.setAccessibleName(tr("What is kept"))
        self._folders = folders
        self.sizes: dict[str, QLabel] = {}
        self._looking = Background(self, self._show)
        grid = QGridLayout()
        grid.setHorizontalSpacing(24)
        grid.setColumnStretch(1, 1)
        names = (tr("Conversations"), tr("Pictures in them"), tr("Recorded runs"), tr("Downloaded models"))
        for row, (key, name) in enumerate(zip(("library", "pictures", "traces", "models"), names, strict=True)):
            self.sizes[key] = label("…")
            grid.addWidget(label(name), row, 0)
            grid.addWidget(self.sizes[key], row, 1)
        self.open = button(tr("Open the folder"), tr("Open the data folder"), role="plain", clicked=self._open)
        self.open.setAutoDefault(False)
        said = tr(
            "All of it is in the data folder. A deleted conversation is kept for {days} days under Recently deleted, "
            "with its recorded runs; then both are erased. The inspector's start page deletes runs at once.",
            days=KEPT_DAYS,
        )
        heading, buttons = label(tr("What is kept"), "setting"), row_of(self.open, STRETCH)
        self.problem = label("", "fault", wrap=True)
        self.setLayout(column_of(heading, grid, buttons, self.problem, label(said, "caption", wrap=True), spacing=8))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        folders = self._folders
        self._looking.ask(lambda: sizes_of(folders))

    @Slot(object)
    def _show(self, sizes: dict[str, int]) -> None:
        for key, count in sizes.items():
            self.sizes[key].setText(size(count))

    @Slot()
    def _open(self) -> None:
        try:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(ensure(self._folders.data))))
        except SafelightError as error:
            self.problem.setText(str(error))


def sizes_of(folders: Folders) -> dict[str, int]:
    """Returns the bytes of what is kept. Links are not followed."""
    return {
        "library": sum(map(_size, folders.data.glob(LIBRARY))),
        "pictures": sum(map(_size, _files(folders.data / FOLDER))),
        "traces": sum(map(_size, _files(folders.traces))),
        "models": sum(map(_size, _files(folders.models))),
    }


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names)


def _size(path: Path) -> int:
    with suppress(OSError):  # it was just removed
        status = path.lstat()
        return status.st_size if stat.S_ISREG(status.st_mode) else 0
    return 0

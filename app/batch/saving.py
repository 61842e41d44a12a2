"""Asks for a file and writes it in a thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths, Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.bridge.background import Background

Write = Callable[[Path], object]
"""Writes a file; called in a thread. Raises SafelightError."""


class Saver(QObject):
    """Writes one file at a time; ``saved`` or ``failed`` follows. ``folder`` is that of the last file."""

    saved = Signal(object)  # the Path
    failed = Signal(str)  # why the file was not written, in one sentence

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.folder = ""
        self._widget = parent
        self._writing = Background(self, self._end, self.failed)

    @property
    def is_busy(self) -> bool:
        """True while a file is being written."""
        return self._writing.is_busy

    def target(self, title: str, name: str, suffix: str) -> Path | None:
        """Asks for a path and returns it; None if none was chosen. ``name`` is suggested, without its suffix."""
        return ask_target(self._widget, title, self.folder, name, suffix)

    def ask(self, title: str, name: str, suffix: str, write: Write) -> None:
        """Asks for a path as ``target`` does, and writes the file."""
        path = self.target(title, name, suffix)
        if path is not None:
            self.write(path, write)

    def write(self, path: Path, write: Write) -> None:
        def job() -> Path:
            write(path)
            return path

        self._writing.ask(job)

    @Slot(object)
    def _end(self, path: Path) -> None:
        self.folder = str(path.parent)
        self.saved.emit(path)


def ask_target(parent: QWidget, title: str, folder: str, name: str, suffix: str) -> Path | None:
    """Returns the path that the user chose, with the suffix added if missing; None if no path was chosen.

    Args:
        folder: where the dialog begins; empty for the user's documents.
        name: the suggested file name, without the suffix.
    """
    documents = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
    offered = str(Path(folder or documents or Path.home()) / f"{name}.{suffix}")
    found = QFileDialog.getSaveFileName(parent.window(), title, offered, f"{suffix.upper()} (*.{suffix})")[0]
    if not found:
        return None
    path = Path(found)
    named = path.with_suffix(f".{suffix}")
    return path if path.suffix or named.exists() else named  # the dialog asked only about the typed name

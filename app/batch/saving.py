"""Asks for a file and writes it in a thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.bridge.background import Background
from app.design.saving import ask_target

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
        """Writes the file."""

        def job() -> Path:
            write(path)
            return path

        self._writing.ask(job)

    @Slot(object)
    def _end(self, path: Path) -> None:
        self.folder = str(path.parent)
        self.saved.emit(path)

"""The model folders and GGUF files that the user listed, kept in the settings. Knows no widgets."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSettings

from app.system.i18n import tr
from engine import SafelightError
from engine.catalog import is_gguf

KEY = "models/folders"


class LocalFolders:
    """The listed folders and files, in the order in which they were added."""

    def __init__(self, settings: QSettings) -> None:
        self._settings = settings

    def all(self) -> list[Path]:
        """Returns every folder and file on the list, including missing ones."""
        raw = self._settings.value(KEY, [])
        listed = (
            [raw] if isinstance(raw, str) else raw if isinstance(raw, list) else []
        )  # QSettings returns a list of one as a string
        return [Path(str(path)) for path in listed if path]

    def add(self, folder: Path) -> None:
        """Puts a folder or a GGUF file on the list.

        Raises:
            SafelightError: the folder holds no model.
        """
        if not is_gguf(folder) and not (folder / "config.json").is_file():
            raise SafelightError(
                tr(
                    "{folder} is not a model folder: it has no config.json. Choose the folder with the weights.",
                    folder=folder,
                )
            )
        self._write([*(path for path in self.all() if path != folder), folder])

    def remove(self, folder: Path) -> None:
        """Takes a folder or a file off the list; the files stay on disk."""
        self._write([path for path in self.all() if path != folder])

    def _write(self, folders: list[Path]) -> None:
        self._settings.setValue(KEY, [str(path) for path in folders])

"""Asks for the file to save something as."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QStandardPaths
from PySide6.QtWidgets import QFileDialog, QWidget


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

"""What of a drop or a paste is files, and what a picture."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QDragEnterEvent, QDragMoveEvent


def local_files(data: QMimeData) -> tuple[str, ...]:
    """Paths of the files and folders that are dragged or pasted; empty where anything else is among them."""
    urls = data.urls() if data.hasUrls() else []
    return tuple(url.toLocalFile() for url in urls) if urls and all(url.isLocalFile() for url in urls) else ()


def has_picture(data: QMimeData) -> bool:
    """Whether a picture is pasted that is no file. A text beside it goes before, as office programs give both."""
    return data.hasImage() and not data.hasText()


def accept_drag(event: QDragEnterEvent | QDragMoveEvent) -> bool:
    """Accept a drag that holds files, always as a copy: a move would let the file manager delete them."""
    if not local_files(event.mimeData()):
        event.ignore()
        return False
    event.setDropAction(Qt.DropAction.CopyAction)
    event.accept()
    return True

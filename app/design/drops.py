"""What of a drop or a paste is files, and what a picture. Nothing is fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QDragEnterEvent, QDragMoveEvent, QDropEvent, QImage

from app.system.i18n import tr

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif")


def local_files(data: QMimeData) -> tuple[str, ...]:
    """Paths of the files and folders that are dragged or pasted; empty where anything else is among them."""
    urls = data.urls() if data.hasUrls() else []
    return tuple(url.toLocalFile() for url in urls) if urls and all(url.isLocalFile() for url in urls) else ()


def has_picture(data: QMimeData) -> bool:
    """Whether there is a picture that is no file.

    A text beside it goes before, as office programs give both; but not one that is its address, as browsers do.
    """
    return data.hasImage() and (data.hasUrls() or not data.hasText())


def is_elsewhere(data: QMimeData) -> bool:
    """Whether it is the address of a picture, without the picture."""
    if data.hasImage() or not any(url.scheme() in ("http", "https") for url in data.urls()):
        return False
    return "<img" in data.html().lower() or any(url.path().lower().endswith(PICTURES) for url in data.urls())


def is_taken(data: QMimeData) -> bool:
    """Whether ``take_drop`` is for it."""
    return bool(local_files(data)) or has_picture(data) or is_elsewhere(data)


def accept_drag(event: QDragEnterEvent | QDragMoveEvent) -> bool:
    """Accept a drag of files or a picture, always as a copy: a move would let the file manager delete them."""
    if not is_taken(event.mimeData()):
        event.ignore()
        return False
    event.setDropAction(Qt.DropAction.CopyAction)
    event.accept()
    return True


def take_drop(
    event: QDropEvent,
    files: Callable[[tuple[str, ...]], object],
    picture: Callable[[QImage], object],
    refuse: Callable[[str], object],
) -> None:
    """Hand on what was dropped: files by their paths, a picture, or in a sentence why it is not taken."""
    data = event.mimeData()
    event.setDropAction(Qt.DropAction.CopyAction)
    event.accept()
    if paths := local_files(data):
        files(paths)
    elif has_picture(data):
        picture(QImage(data.imageData()))
    else:
        refuse(tr("Nothing is fetched from the web. Copy the picture and paste it here, or save it and drop it."))

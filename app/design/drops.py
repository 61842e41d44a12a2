"""Finds files and pictures in drops and pastes. Downloads nothing."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragMoveEvent, QDropEvent, QImage

from app.system.i18n import tr

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif")


def local_files(data: QMimeData) -> tuple[str, ...]:
    """Returns the paths of the files and folders that are dragged or pasted; empty if anything else is among them."""
    urls = data.urls() if data.hasUrls() else []
    return tuple(url.toLocalFile() for url in urls) if urls and all(url.isLocalFile() for url in urls) else ()


def has_picture(data: QMimeData) -> bool:
    """True if the data contains a picture that is not a file.

    Text next to the picture takes precedence, since office programs offer both. It does not if it is blank, or the
    address of the picture, which browsers add.
    """
    lines = filter(None, map(str.strip, data.text().splitlines()))
    return data.hasImage() and all(QUrl(line) in data.urls() for line in lines)


def is_elsewhere(data: QMimeData) -> bool:
    """True if the data contains only the address of a picture, not the picture."""
    if data.hasImage() or not any(url.scheme() in ("http", "https") for url in data.urls()):
        return False
    return "<img" in data.html().lower() or any(url.path().lower().endswith(PICTURES) for url in data.urls())


def is_taken(data: QMimeData) -> bool:
    """True if ``take_drop`` handles this data."""
    return bool(local_files(data)) or has_picture(data) or is_elsewhere(data)


def accept_drag(event: QDragEnterEvent | QDragMoveEvent) -> bool:
    """Accepts a drag of files or a picture, always as a copy: after a move the file manager would delete them."""
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
    """Passes on what was dropped: paths to ``files``, a picture to ``picture``, or a sentence to ``refuse``."""
    data = event.mimeData()
    event.setDropAction(Qt.DropAction.CopyAction)
    event.accept()
    if paths := local_files(data):
        files(paths)
    elif has_picture(data):
        picture(QImage(data.imageData()))
    else:
        refuse(tr("Nothing is fetched from the web. Copy the picture and paste it here, or save it and drop it."))

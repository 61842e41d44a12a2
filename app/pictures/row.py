"""Pictures that something shows, in small in a row; each opens in a window of its own."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.design.controls import FlowLayout
from app.library.pictures import PictureStore
from app.pictures.source import PictureSource
from app.pictures.thumb import PictureThumb
from app.state.chat.attachment import AttachedPicture
from app.system.i18n import tr

THUMB_HEIGHT = 72  # pixels at 100 %
GAP = 8


class PictureRow(QWidget):
    """Hidden without any; ``source`` is where they come from."""

    def __init__(self) -> None:
        super().__init__()
        self.source = PictureSource(PictureStore(None).get)
        self.thumbs: list[PictureThumb] = []
        self._host: QWidget | None = None
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self.setAccessibleName(tr("Pictures of the prompt"))
        self.hide()

    def show_pictures(self, pictures: Sequence[AttachedPicture]) -> None:
        """Show these in place of what was there."""
        if self._host is not None:
            self._column.removeWidget(self._host)
            self._host.hide()
            self._host.deleteLater()
        self._host = QWidget()
        flow = FlowLayout(self._host, GAP)
        self.thumbs = [PictureThumb(shown, self.source, THUMB_HEIGHT) for shown in pictures]
        for thumb in self.thumbs:
            flow.addWidget(thumb)
        self._column.addWidget(self._host)
        self.setVisible(bool(self.thumbs))

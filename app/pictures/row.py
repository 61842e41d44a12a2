"""A row of thumbnails; each opens its picture in a window of its own."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from app.design.controls import flow_of
from app.design.layouts import column_of
from app.library.pictures import PictureStore
from app.pictures.source import PictureSource
from app.pictures.thumb import PictureThumb
from app.state.chat.attachment import AttachedPicture
from app.system.i18n import tr

THUMB_HEIGHT = 72  # pixels at 100 %
GAP = 8


class PictureRow(QWidget):
    """The row, hidden without pictures; ``source`` decodes them."""

    def __init__(self) -> None:
        super().__init__()
        self.source = PictureSource(PictureStore(None).get)
        self.thumbs: list[PictureThumb] = []
        self._host: QWidget | None = None
        self._column = column_of()
        self.setLayout(self._column)
        self.setAccessibleName(tr("Pictures of the prompt"))
        self.hide()

    def show_pictures(self, pictures: Sequence[AttachedPicture]) -> None:
        if self._host is not None:
            self._column.removeWidget(self._host)
            self._host.hide()
            self._host.deleteLater()
        self.thumbs = [PictureThumb(shown, self.source, THUMB_HEIGHT) for shown in pictures]
        self._host = flow_of(*self.thumbs, gap=GAP)
        self._column.addWidget(self._host)
        self.setVisible(bool(self.thumbs))

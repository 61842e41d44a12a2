"""The thumbnail of the picture that the puzzle was read from, and a note about cells in doubt."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QWidget

from app.design.controls import label
from app.design.layouts import row_of
from app.pictures.source import PictureSource
from app.pictures.thumb import PictureThumb
from app.state.chat.attachment import AttachedPicture
from app.system.i18n import tr, trn
from engine.pictures import Picture

THUMB_HEIGHT = 112  # pixels at 100 %


class PictureNote(QWidget):
    """The thumbnail and the note; hidden while there is no picture."""

    def __init__(self) -> None:
        super().__init__()
        self.thumb: PictureThumb | None = None
        self.words = label("", "caption", wrap=True)
        self.words.setAccessibleName(tr("What to look at"))
        self._row = row_of((self.words, 1), spacing=12)
        self.setLayout(self._row)
        self.hide()

    def show_picture(self, shown: AttachedPicture, picture: Picture) -> None:
        """Shows another picture, without a note."""
        self._drop_thumb()
        self.thumb = PictureThumb(shown, PictureSource(lambda *_: picture), THUMB_HEIGHT)
        self._row.insertWidget(0, self.thumb)
        self.words.clear()
        self.show()

    def show_doubts(self, count: int) -> None:
        """Shows the number of cells in doubt."""
        doubts = trn("{count} cell is in doubt: look at it.", "{count} cells are in doubt: look at them.", count)
        self.words.setText(doubts if count else tr("Compare the board with the picture before it is solved."))

    @Slot()
    def clear(self) -> None:
        """Removes the picture."""
        self._drop_thumb()
        self.hide()

    def _drop_thumb(self) -> None:
        if self.thumb is not None:
            self._row.removeWidget(self.thumb)
            self.thumb.hide()
            self.thumb.deleteLater()
            self.thumb = None

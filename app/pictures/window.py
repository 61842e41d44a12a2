"""A window that shows a picture as large as the screen allows; Esc closes it."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Slot
from PySide6.QtGui import QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QDialog, QWidget

from app.bridge.background import Background
from app.pictures.source import PictureSource
from app.state.chat.attachment import AttachedPicture

SHARE = 0.85  # largest share of the screen's width and height
LEAST = QSize(240, 160)  # pixels


class PictureWindow(QDialog):
    """Shows the thumbnail's image until the large one is decoded. Deletes itself when closed."""

    def __init__(
        self, shown: AttachedPicture, source: PictureSource, title: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.setAccessibleName(title)
        self.image: QImage | None = source.known(shown)
        screen = self.screen().availableSize() * SHARE
        whole = QSize(shown.width, shown.height)
        fits = whole.width() <= screen.width() and whole.height() <= screen.height()
        self.resize((whole if fits else whole.scaled(screen, Qt.AspectRatioMode.KeepAspectRatio)).expandedTo(LEAST))
        self._loading = Background(self, self._loaded)
        self._loading.ask(lambda: source.large(shown))

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self.image is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        size = self.image.size().scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio).expandedTo(QSize(1, 1))
        place = QRectF(QPointF(0, 0), size.toSizeF())
        place.moveCenter(QRectF(self.rect()).center())
        painter.drawImage(place, self.image)
        painter.end()

    @Slot(object)
    def _loaded(self, image: QImage | None) -> None:
        if image is not None:
            self.image = image
            self.update()

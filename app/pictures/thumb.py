"""A thumbnail, and the window in which it opens its picture. Decoded in a thread."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QGuiApplication, QHideEvent, QImage, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QDialog, QPushButton, QSizePolicy, QWidget

from app.bridge.background import Background
from app.design.focus_rings import is_ringed
from app.design.fonts import px
from app.pictures.source import PictureSource
from app.state.chat.attachment import AttachedPicture
from app.system.i18n import tr

RING = 2  # width of the focus ring in pixels
SHARE = 0.85  # largest share of the screen's width and height that a window takes
LEAST = QSize(240, 160)  # pixels of a window
NARROWEST, WIDEST = 0.5, 2.5  # limits of width / height; other pictures are shown with empty margins


def name_of(shown: AttachedPicture) -> str:
    """Returns the name of a picture, or "Picture"."""
    return shown.name or tr("Picture")


def title_of(shown: AttachedPicture) -> str:
    """Returns the name of a picture after the word "Picture", for places without other context."""
    return tr("Picture {name}", name=shown.name) if shown.name else tr("Picture")


def size_of(shown: AttachedPicture) -> str:
    """Returns a picture's width and height in pixels, as text."""
    return f"{shown.width:,} × {shown.height:,}"


class PictureThumb(QPushButton):
    """A thumbnail; ``height`` is in pixels at 100 %. A missing or damaged picture is labelled and does not open."""

    left = Signal()  # its page was left; the picture's window closes

    def __init__(self, shown: AttachedPicture, source: PictureSource, height: int) -> None:
        super().__init__()
        self.shown, self._source, self._height = shown, source, height
        self.image: QImage | None = source.known(shown)
        self.is_missing = False
        self.setProperty("role", "picture")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(tr("{title}, {size} pixels", title=title_of(shown), size=size_of(shown)))
        tip = tr("{name}, {size} pixels; a click enlarges it", name=name_of(shown), size=size_of(shown))
        self.setToolTip(tip)
        self.clicked.connect(self._open)
        self._loading = Background(self, self._loaded)
        if self.image is None:
            self._loading.ask(lambda: source.small(shown))

    def sizeHint(self) -> QSize:
        height = px(self._height)
        ratio = min(WIDEST, max(NARROWEST, self.shown.width / self.shown.height))
        return QSize(round(height * ratio), height)

    def paintEvent(self, _event: QPaintEvent) -> None:
        palette = QGuiApplication.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        place = QRectF(self.rect())
        painter.fillRect(place, palette.color(QPalette.ColorRole.Light))
        if self.image is not None:
            size = self.image.size().scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio)
            left, top = (self.width() - size.width()) / 2, (self.height() - size.height()) / 2
            painter.drawImage(QRectF(left, top, max(1, size.width()), max(1, size.height())), self.image)
        elif self.is_missing:
            painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(place.adjusted(4, 4, -4, -4), int(flags), tr("missing"))
        line = RING if is_ringed(self) else 1
        painter.setPen(QPen(palette.color(QPalette.ColorRole.Accent if line == RING else QPalette.ColorRole.Mid), line))
        painter.drawRect(place.adjusted(line / 2, line / 2, -line / 2, -line / 2))
        painter.end()

    @Slot(object)
    def _loaded(self, image: QImage | None) -> None:
        self.image = image
        if image is None:
            self.is_missing = True
            said = tr("The picture {name} is missing or damaged.", name=name_of(self.shown))
            self.setToolTip(said)
            self.setAccessibleName(said)
            self.setEnabled(False)
        self.update()

    @Slot()
    def _open(self) -> None:
        opened = PictureWindow(self.shown, self._source, title_of(self.shown), self.window())
        self.left.connect(opened.close)
        opened.show()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():  # not as the whole window is minimised
            self.left.emit()


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

"""The pictures attached to a prompt, as thumbnails with size and token count. Read and decoded in a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPointF, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QGuiApplication, QHideEvent, QImage, QImageWriter, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QDialog, QFrame, QPushButton, QSizePolicy, QWidget

from app.bridge.background import Background
from app.design.chip_bar import ChipBar
from app.design.controls import button, introduce, label
from app.design.focus_rings import is_ringed
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.library.pictures import PictureStore
from app.pictures.source import PictureSource
from app.state.chat.attachment import AttachedPicture
from app.system.folders import shown_name
from app.system.i18n import tr, trn
from engine import SafelightError
from engine.files import open_regular, read_bytes
from engine.pictures import MAX_BYTES, Picture, is_picture, open_picture

HEAD_BYTES = 16

Pasted = str | QImage
"""A file's path, or an image from the clipboard."""


RING = 2  # width of the focus ring in pixels
SHARE = 0.85  # largest share of the screen's width and height that a window takes
LEAST_WINDOW = QSize(240, 160)  # pixels of a window
NARROWEST, WIDEST = 0.5, 2.5  # limits of width / height; other pictures are shown with empty margins
MAX_PICTURES = 10
NAME_WIDTH = 160  # pixels at 100 %
THUMB_HEIGHT = 48
Cost = Callable[[int, int], int]
"""Returns the number of tokens of a picture, given its width and height in pixels."""


def is_picture_file(path: str) -> bool:
    """Returns True if a file begins like a picture; False if it cannot be read."""
    try:
        with open_regular(Path(path)) as file:
            return is_picture(file.read(HEAD_BYTES))
    except (SafelightError, OSError):
        return False


def read_picture(source: Pasted) -> tuple[str, Picture]:
    """Returns the name of a picture's file (empty for the clipboard) and the picture.

    Raises:
        SafelightError: it cannot be read, is too large or damaged, in one sentence.
    """
    if isinstance(source, QImage):
        buffer = QBuffer()
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        if not QImageWriter(buffer, QByteArray(b"png")).write(source):
            raise SafelightError(tr("This picture cannot be read. Save it as a PNG file, and drop that."))
        return "", open_picture(bytes(buffer.data().data()))
    path = Path(source)
    name = shown_name(path)
    try:
        return name, open_picture(read_bytes(path, MAX_BYTES), name)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SafelightError(tr("{name} cannot be read: {reason}.", name=name, reason=reason.lower())) from error


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
        tip = tr("{name}, {size} pixels; a click enlarges it", name=name_of(shown), size=size_of(shown))
        said = tr("{title}, {size} pixels", title=title_of(shown), size=size_of(shown))
        introduce(self, said, tip=tip, role="picture")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
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
        with QPainter(self) as painter:
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
            painter.setPen(
                QPen(palette.color(QPalette.ColorRole.Accent if line == RING else QPalette.ColorRole.Mid), line)
            )
            painter.drawRect(place.adjusted(line / 2, line / 2, -line / 2, -line / 2))

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
        self.resize(
            (whole if fits else whole.scaled(screen, Qt.AspectRatioMode.KeepAspectRatio)).expandedTo(LEAST_WINDOW)
        )
        self._loading = Background(self, self._loaded)
        self._loading.ask(lambda: source.large(shown))

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self.image is None:
            return
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            size = self.image.size().scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio).expandedTo(QSize(1, 1))
            place = QRectF(QPointF(0, 0), size.toSizeF())
            place.moveCenter(QRectF(self.rect()).center())
            painter.drawImage(place, self.image)

    @Slot(object)
    def _loaded(self, image: QImage | None) -> None:
        if image is not None:
            self.image = image
            self.update()


def refusal_of(problems: Sequence[str]) -> str:
    """Returns one line about pictures that were not attached; empty if all were."""
    if not problems:
        return ""
    more = len(problems) - 1
    rest = trn("{count} more file was not attached.", "{count} more files were not attached.", more) if more else ""
    return f"{problems[0]} {rest}".strip()


@dataclass
class _Read:
    """The result of reading. Pictures are kept in memory, so that they can be sent even if the disk fails."""

    pictures: list[tuple[str, Picture]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class PictureChip(QFrame):
    """The chip of one picture; ``remove`` is its button."""

    def __init__(self, shown: AttachedPicture, source: PictureSource) -> None:
        super().__init__()
        self.shown = shown
        self.setProperty("role", "well")
        self.thumb = PictureThumb(shown, source, THUMB_HEIGHT)
        name = label(name_of(shown))
        name.setText(name.fontMetrics().elidedText(name_of(shown), Qt.TextElideMode.ElideMiddle, px(NAME_WIDTH)))
        self.facts = label("", "caption")
        self.remove = button("×", tr("Remove {name}", name=name_of(shown)), tip=tr("Remove this picture"))
        self.remove.setMinimumWidth(24)
        words = column_of(STRETCH, name, self.facts, STRETCH, spacing=0)
        self.setLayout(row_of(self.thumb, words, self.remove, margins=(4, 4, 4, 4), spacing=8))
        self.show_cost(None)

    def show_cost(self, cost: Cost | None) -> None:
        """Shows how many tokens the picture takes; None if the model cannot see."""
        facts = [size_of(self.shown)]
        if cost is not None:
            facts.append(trn("{count} token", "{count} tokens", cost(self.shown.width, self.shown.height)))
        self.facts.setText(" · ".join(facts))
        self.setAccessibleName(" · ".join((name_of(self.shown), *facts)))
        self.remove.setAccessibleDescription(" · ".join(facts))


class PictureBar(ChipBar):
    refused = Signal(object)  # list[str], a sentence for each picture that was not attached; may be empty

    def __init__(self) -> None:
        super().__init__(tr("Pictures of the prompt"))
        self.chips: list[PictureChip] = []
        self._store = PictureStore(None)
        self._source = PictureSource(self._store.get)
        self._cost: Cost | None = None
        self._held: list[Picture] = []
        self._waiting: list[Pasted] = []
        self._reading = Background(self, self._add)

    @property
    def pictures(self) -> tuple[AttachedPicture, ...]:
        return tuple(chip.shown for chip in self.chips)

    @property
    def buttons(self) -> list[QPushButton]:
        return [made for chip in self.chips for made in (chip.thumb, chip.remove)]

    @property
    def is_reading(self) -> bool:
        return self._reading.is_busy

    def set_store(self, store: PictureStore, source: PictureSource) -> None:
        """Sets where pictures are stored and where they are read from."""
        self._store, self._source = store, source

    def set_cost(self, cost: Cost | None) -> None:
        """Sets how tokens are counted; None if the model cannot see."""
        self._cost = cost
        for chip in self.chips:
            chip.show_cost(cost)

    def set_pictures(self, pictures: Sequence[AttachedPicture]) -> None:
        """Replaces the attached pictures, and drops those still being read."""
        if self.is_reading:
            self._waiting.clear()
            self._reading.drop()
            self.refused.emit([])
        self._show(pictures)

    def _show(self, pictures: Sequence[AttachedPicture]) -> None:
        if tuple(pictures) == self.pictures:
            return
        self.chips = [PictureChip(shown, self._source) for shown in pictures]
        there = {shown.digest for shown in pictures}
        self._held = [picture for picture in self._held if picture.digest in there]
        for chip in self.chips:
            chip.show_cost(self._cost)
        self._place(self.chips, [chip.remove for chip in self.chips])
        self.changed.emit()

    def add(self, sources: Sequence[Pasted]) -> None:
        """Reads pictures and attaches them; then emits ``refused``."""
        self._waiting += sources
        if not self._reading.is_busy:
            self._read()

    def _read(self) -> None:
        sources, self._waiting = self._waiting, []
        store = self._store

        def read() -> _Read:
            result = _Read()
            for source in sources:
                if len(result.pictures) == MAX_PICTURES:  # thousands, as from a folder, would not fit in memory
                    result.problems.append(_too_many())
                    break
                try:
                    result.pictures.append(read_picture(source))
                    store.keep(result.pictures[-1][1])
                except SafelightError as error:  # unreadable, or not stored; storing is tried again when it is sent
                    result.problems.append(str(error))
            return result

        self._reading.ask(read)

    @Slot(object)
    def _add(self, result: _Read) -> None:
        shown, problems = list(self.pictures), result.problems
        for name, picture in result.pictures:
            if picture.digest in {one.digest for one in shown}:
                problems.append(tr("{name} is attached already.", name=name or tr("This picture")))
            elif len(shown) >= MAX_PICTURES:
                problems.append(_too_many())
            else:
                self._held.append(picture)
                shown.append(AttachedPicture(name, picture.digest, picture.width, picture.height))
        self._show(shown)
        self.refused.emit(problems)
        if self._waiting:
            self._read()

    def _drop(self, place: int) -> None:
        self._show([one for at, one in enumerate(self.pictures) if at != place])


def _too_many() -> str:
    return tr("At most {most} pictures can be sent; remove one first.", most=MAX_PICTURES)

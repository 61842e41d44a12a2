"""Icons of one family, Material Design 6, in a colour of the theme. The family loads after the first paint.

Reading the font and its library takes about 0.2 s. So a control gets an empty picture of the right size at once, and
its icon when ``load`` is called, after the window is shown. The marks inside standard controls are drawn here.
"""

from __future__ import annotations

import contextlib
import os
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QPointF, QSize, Qt, QTemporaryDir
from PySide6.QtGui import QColor, QIcon, QImage, QPainter, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QAbstractButton, QPushButton, QToolButton, QWidget

from app.design import themes
from app.design.controls import button, introduce
from app.design.fonts import px
from app.design.tokens import Theme

if TYPE_CHECKING:
    from qtawesome.iconic_font import IconicFont

SIZE = 18  # pixels, at 100 %
_FAMILY = "mdi6"
Ink = Literal["ink", "faint_ink", "accent"]

_font: IconicFont | None = None
_shown: weakref.WeakKeyDictionary[QAbstractButton, tuple[str, Ink]] = weakref.WeakKeyDictionary()


def icon(name: str, colour: str) -> QIcon:
    """Returns an icon by its name in the family, as "cog-outline", in ``#rrggbb``; loads the family if necessary.

    Raises:
        ValueError: the family has no such icon.
    """
    family = _family()
    if name not in family.charmap[_FAMILY]:
        raise ValueError(f"there is no icon {name!r}")
    drawn: QIcon = family.icon(f"{_FAMILY}.{name}", color=colour)
    return drawn


def set_icon(control: QAbstractButton, name: str, ink: Ink = "ink") -> None:
    """Give a button its icon in a colour of the theme: at once if the family is loaded, else when it is."""
    _shown[control] = (name, ink)
    _show(control, name, ink)


def _show(control: QAbstractButton, name: str, ink: Ink) -> None:
    control.setIconSize(QSize(px(SIZE), px(SIZE)))
    control.setIcon(_empty() if _font is None else icon(name, getattr(themes.current(), ink)))


def _show_all() -> None:
    for control, (name, ink) in list(_shown.items()):
        with contextlib.suppress(RuntimeError):  # Qt has deleted the button before Python has
            _show(control, name, ink)


themes.changed.connect(_show_all)


def load() -> None:
    """Loads the family and shows the icons that wait for it. Call it after the window has been painted."""
    if _font is None:
        _family()
        _show_all()


def is_loaded() -> bool:
    return _font is not None


def _family() -> IconicFont:
    global _font
    if _font is None:
        with _pyside_chosen(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library warns of other Qt bindings
            # 0.2 s with the font, so after the first paint
            from qtawesome import _BUNDLED_FONTS
            from qtawesome.iconic_font import IconicFont

            # Only our family is read, which takes a fifth of the time of all.
            fonts = (font for font in _BUNDLED_FONTS if font[0] == _FAMILY)
            _font = IconicFont(*fonts)
    return _font


@contextlib.contextmanager
def _pyside_chosen() -> Iterator[None]:
    """Sets QT_API for the library, since the environment may name a Qt binding for another program."""
    before = os.environ.get("QT_API")
    os.environ["QT_API"] = "pyside6"
    try:
        yield
    finally:
        if before is None:
            del os.environ["QT_API"]
        else:
            os.environ["QT_API"] = before


def _empty() -> QIcon:
    picture = QPixmap(px(SIZE), px(SIZE))
    picture.fill(Qt.GlobalColor.transparent)
    return QIcon(picture)


_STROKES = {
    "up": ((2, 6.5), (5, 3.5), (8, 6.5)),
    "down": ((2, 3.5), (5, 6.5), (8, 3.5)),
    "check": ((2, 5.2), (4.2, 7.4), (8, 2.8)),
    "dot": ((5, 5), (5, 5)),
}
_folders: dict[str, QTemporaryDir] = {}


def draw_marks(theme: Theme) -> str:
    """Draws the arrows and marks in the size of the text: a style sheet can only read them from files, and does not
    enlarge them. The folder is deleted when the app ends.

    Returns an empty text if no temporary folder can be made.
    """
    side = px(10)
    kept = f"{theme.name} {side}"
    if kept in _folders:
        return _folders[kept].path()
    folder = _folders[kept] = QTemporaryDir()
    if not folder.isValid():
        return ""
    shades = {"": theme.faint_ink, "-off": theme.line_strong}
    for name, points in _STROKES.items():
        for suffix, shade in shades.items():
            for scale in (1, 2):
                image = QImage(side * scale, side * scale, QImage.Format.Format_ARGB32_Premultiplied)
                image.fill(Qt.GlobalColor.transparent)
                with QPainter(image) as painter:
                    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
                    painter.scale(side * scale / 10, side * scale / 10)
                    stroke = QPen(
                        QColor(theme.on_accent if name in ("check", "dot") else shade), 4 if name == "dot" else 1.6
                    )
                    stroke.setCapStyle(Qt.PenCapStyle.RoundCap)
                    stroke.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
                    painter.setPen(stroke)
                    if name == "dot":
                        painter.drawPoint(QPointF(*points[0]))
                    else:
                        painter.drawPolyline(QPolygonF([QPointF(*point) for point in points]))
                image.save(folder.filePath(f"{name}{suffix}{'@2x' if scale == 2 else ''}.png"))
    return folder.path()


def transport_button(name: str, title: str, tip: str, clicked: Callable[[], object]) -> QPushButton:
    """Returns a button with an icon, as in the controls of a player."""
    made = introduce(button("", title, role="plain", tip=tip, clicked=clicked), id="transport-button")
    set_icon(made, name)
    return made


BUTTON = 28  # pixels; the button is a square


class DotsButton(QToolButton):
    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        introduce(self, name, tip=name, role="dots")
        self.setFixedSize(BUTTON, BUTTON)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        set_icon(self, "dots-horizontal")

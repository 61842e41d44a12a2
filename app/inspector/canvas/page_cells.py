"""The grids of cells on the inspector's page, which leave most keys to it, and the pictures of the prompt."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from PySide6.QtCore import QRect, Qt, Slot
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QScrollArea

from app.board.view import BlockBoard
from app.canvas.grid_view import GridView
from app.canvas.view import CanvasView
from app.design import themes
from app.design.controls import introduce, label
from app.design.layouts import STRETCH, bare, boxed, column_of
from app.design.tokens import color, veil
from app.pictures.bar import PictureThumb
from app.pictures.source import PictureSource
from app.player.player import NOTHING, Player
from app.state.chat.attachment import AttachedPicture
from app.state.run.canvas import Mask
from app.system.i18n import tr, trn

THUMB_HEIGHT = 56  # pixels at 100 %
MAX_SHOWN = 32  # a trace may name thousands
SIDE_ROOM = 40  # pixels left and right of the thumbnails together, including a scroll bar


class PromptPictures(QScrollArea):
    """``thumbs`` holds the thumbnails of the open run, in the order of the prompt."""

    def __init__(self, player: Player) -> None:
        super().__init__(widgetResizable=True)
        self._player = player
        self.thumbs: list[PictureThumb] = []
        self._shown: tuple[AttachedPicture, ...] = ()
        bare(introduce(self, tr("Pictures of the prompt")))
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        player.opened.connect(self._open)
        themes.changed.connect(self._fit)
        self.hide()

    @Slot()
    def _open(self) -> None:
        trace = self._player.trace
        images = () if trace is None else [image for one in trace.header.messages for image in one.get("images", ())]
        unique = {image["digest"]: image for image in images}
        shown = tuple(AttachedPicture("", one["digest"], one["width"], one["height"]) for one in unique.values())
        self.setVisible(bool(shown))
        if trace is None or (shown == self._shown and not any(thumb.is_missing for thumb in self.thumbs)):
            return
        self._shown = shown
        pictures = cache(lambda: {picture.digest: picture for picture in trace.pictures})  # read at the first request
        source = PictureSource(lambda digest, _width, _height: pictures().get(digest))
        self.thumbs = [PictureThumb(one, source, THUMB_HEIGHT) for one in shown[:MAX_SHOWN]]
        more = len(shown) - MAX_SHOWN
        notes = [label(trn("and {count} more", "and {count} more", more), "caption")] if more > 0 else []
        self.setWidget(boxed(column_of(*self.thumbs, *notes, STRETCH, margins=(16, 16, 12, 16))))
        self._fit()

    @Slot()
    def _fit(self) -> None:
        self.setFixedWidth(max((thumb.sizeHint().width() for thumb in self.thumbs), default=0) + SIDE_ROOM)


TINT = 0.3  # opacity of the tint over a marked cell

_MOVES = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Home, Qt.Key.Key_End)


def tint(painter: QPainter, rect: QRect) -> None:
    """Tints and frames a cell that is to be rewritten. Not all users can see a tint alone."""
    shade = themes.current().accent
    painter.setPen(QPen(color(shade), 1, Qt.PenStyle.DashLine))
    painter.drawRect(rect.adjusted(0, 0, -1, -1))
    painter.fillRect(rect, veil(shade, TINT))


class PageGrid(GridView):
    """A grid that moves with Up and Down, and with arrows, Home and End and Ctrl. Other keys go to the page.

    It shares the selected and the hovered position with all views of a run. ``paint_mark`` marks the cells at some
    positions of its canvas.
    """

    def __init__(self, player: Player, paint_mark: Callable[[QPainter, QRect], None] = tint) -> None:
        super().__init__()
        self._paint_mark = paint_mark
        self.positionSelected.connect(player.select)
        self.positionHovered.connect(player.point)
        player.selected.connect(self.select_position)
        player.hovered.connect(self.point_at)
        self.marks: Mask = np.zeros(0, dtype=np.bool_)  # the marked positions, shape (C,)

    def set_marks(self, marks: Mask) -> None:
        """Marks these positions, shape (C,)."""
        if not np.array_equal(marks, self.marks):
            self.marks = marks
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        cells = [self.cell_of(position) for position in np.flatnonzero(self.marks).tolist()]
        with QPainter(self) as painter:
            for cell in cells:
                if 0 <= cell < self.grid.count:
                    self._paint_mark(painter, QRect(*self.grid.rect_of(cell)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if modifiers == Qt.KeyboardModifier.ControlModifier and key in _MOVES:
            super().keyPressEvent(QKeyEvent(event.type(), key, Qt.KeyboardModifier.NoModifier))
        elif not modifiers and (
            key in (Qt.Key.Key_Up, Qt.Key.Key_Down) or (key == Qt.Key.Key_Escape and self.selected != NOTHING)
        ):
            super().keyPressEvent(event)
        else:
            event.ignore()


class SpannedCanvas(PageGrid, CanvasView):
    """A canvas of tokens on the inspector's page."""


class SpannedBoard(PageGrid, BlockBoard):
    """A board on the inspector's page."""

    def _wants(self, event: QKeyEvent) -> bool:
        """True for keys that the board takes before the page does: only those with Ctrl."""
        return bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier) and super()._wants(event)

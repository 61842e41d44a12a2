"""Thumbnails of the pictures of a run's prompt, next to the canvas; hidden if there are none. Follows the player."""

from __future__ import annotations

import threading

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QFrame, QScrollArea

from app.design import themes
from app.design.controls import label
from app.design.layouts import STRETCH, boxed, column_of
from app.pictures.bar import PictureThumb
from app.pictures.source import PictureSource
from app.player.player import Player
from app.state.chat.attachment import AttachedPicture
from app.system.i18n import tr, trn
from engine import Recording
from engine.pictures import Picture

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
        self.setAccessibleName(tr("Pictures of the prompt"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
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
        source = PictureSource(_Found(trace).get)
        self.thumbs = [PictureThumb(one, source, THUMB_HEIGHT) for one in shown[:MAX_SHOWN]]
        more = len(shown) - MAX_SHOWN
        notes = [label(trn("and {count} more", "and {count} more", more), "caption")] if more > 0 else []
        self.setWidget(boxed(column_of(*self.thumbs, *notes, STRETCH, margins=(16, 16, 12, 16))))
        self._fit()

    @Slot()
    def _fit(self) -> None:
        self.setFixedWidth(max((thumb.sizeHint().width() for thumb in self.thumbs), default=0) + SIDE_ROOM)


class _Found:
    """The pictures of a recording, read at the first request. Requests may come from any thread."""

    def __init__(self, trace: Recording) -> None:
        self._trace, self._lock = trace, threading.Lock()
        self._pictures: dict[str, Picture] | None = None

    def get(self, digest: str, _width: int, _height: int) -> Picture | None:
        with self._lock:
            if self._pictures is None:
                self._pictures = {picture.digest: picture for picture in self._trace.pictures}
            return self._pictures.get(digest)

"""View options shared by all conversations and their canvases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.design.fonts import canvas_font, text_percent
from app.library.pictures import PictureStore
from app.pictures.source import PictureSource

if TYPE_CHECKING:
    from app.canvas.view import CanvasView


@dataclass(frozen=True)
class ViewOptions:
    """The user's choices of how things are drawn."""

    calm: bool
    pace: str = "1"  # speed of replays, a value of the declared setting
    pictures: PictureSource = field(default_factory=lambda: PictureSource(PictureStore(None).get))
    percent: int = field(default_factory=text_percent)  # size of text

    def apply(self, view: CanvasView) -> None:
        view.set_font(canvas_font())
        view.set_calm(self.calm)

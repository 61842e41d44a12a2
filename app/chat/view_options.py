"""How conversations and their canvases are to be shown, the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.canvas.paint import LAYERS
from app.design.fonts import canvas_font, text_percent
from app.library.pictures import PictureStore
from app.pictures.source import PictureSource

if TYPE_CHECKING:
    from app.canvas.view import CanvasView


@dataclass(frozen=True)
class ViewOptions:
    """The user's choices of view."""

    calm: bool
    layer: str
    pace: str = "1"  # of a replay, a value of the declared setting
    pictures: PictureSource = field(default_factory=lambda: PictureSource(PictureStore(None).get))
    percent: int = 0  # the size of text; 0 takes the present one

    def __post_init__(self) -> None:
        if not self.percent:
            object.__setattr__(self, "percent", text_percent())

    def apply(self, view: CanvasView) -> None:
        """Dress one canvas."""
        view.set_font(canvas_font())
        view.set_calm(self.calm)
        view.set_layer(next((layer for layer in LAYERS if layer == self.layer), "state"))

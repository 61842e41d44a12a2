"""How canvases are to be shown, the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from app.canvas.view import CanvasView
from app.theme import Theme


@dataclass(frozen=True)
class CanvasLook:
    """Theme and the user's choices of view."""

    theme: Theme
    calm: bool
    layer: str
    reduced_motion: bool

    def apply(self, view: CanvasView) -> None:
        """Dress one canvas."""
        view.set_theme(self.theme)
        view.set_calm(self.calm)
        view.set_layer("entropy" if self.layer == "entropy" else "state")
        view.set_reduced_motion(self.reduced_motion)

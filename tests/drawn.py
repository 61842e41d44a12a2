"""Questions about drawings, each with a drawing of its own."""

from __future__ import annotations

from engine.tasks.drawings.scene import COLOURS, DrawnShape, Number, Scene

_WHITE = (250, 250, 250)


def _shapes(*drawn: tuple[str, str, float, float, float, float]) -> Scene:
    """Returns a scene of shapes: kind, colour, x, y, radius and turn of each."""
    return Scene(_WHITE, tuple(DrawnShape(kind, colour, COLOURS[colour], *place) for kind, colour, *place in drawn))


DRAWN = {
    "What color is the square?": _shapes(("square", "yellow", 0.27, 0.71, 0.12, 5.0)),
    "How many shapes are there?": _shapes(
        ("triangle", "purple", 0.67, 0.85, 0.10, -3.0),
        ("triangle", "yellow", 0.32, 0.38, 0.12, 0.0),
        ("star", "yellow", 0.74, 0.45, 0.10, -3.0),
        ("triangle", "blue", 0.65, 0.16, 0.11, 7.0),
        ("star", "yellow", 0.28, 0.69, 0.13, 9.0),
    ),
    "Which shape is yellow?": _shapes(
        ("triangle", "yellow", 0.75, 0.74, 0.12, 9.0),
        ("square", "purple", 0.46, 0.18, 0.13, -4.0),
        ("circle", "blue", 0.38, 0.50, 0.14, -8.0),
        ("triangle", "blue", 0.67, 0.36, 0.12, 7.0),
    ),
    "Which number is written?": Scene(
        _WHITE, number=Number("35", "green", COLOURS["green"], 0.62, 0.60, 0.32, "Inter-SemiBold")
    ),
    "What is right of the circle?": _shapes(
        ("circle", "purple", 0.36, 0.16, 0.12, -1.0),
        ("star", "yellow", 0.51, 0.55, 0.13, -13.0),
        ("triangle", "black", 0.22, 0.75, 0.11, -12.0),
    ),
}

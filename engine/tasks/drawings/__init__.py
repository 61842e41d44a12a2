"""Small drawings of shapes or a number, and questions about them, for a model that sees."""

from __future__ import annotations

from engine.tasks.drawings.asking import is_question
from engine.tasks.drawings.drawing import SIDE, draw, picture_of
from engine.tasks.drawings.scene import COLOURS, SHAPES, DrawnShape, Number, Scene

__all__ = [
    "COLOURS",
    "SHAPES",
    "SIDE",
    "DrawnShape",
    "Number",
    "Scene",
    "draw",
    "is_question",
    "picture_of",
]

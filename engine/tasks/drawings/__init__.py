"""Small drawings of shapes or a number, and questions about them, for a model that sees."""

from __future__ import annotations

from engine.tasks.drawings.asking import KINDS, is_question
from engine.tasks.drawings.drawing import SIDE, draw, picture_of
from engine.tasks.drawings.scene import COLOURS, MOST_SHAPES, SHAPES, DrawnShape, Number, Scene, random_scene

__all__ = [
    "COLOURS",
    "KINDS",
    "MOST_SHAPES",
    "SHAPES",
    "SIDE",
    "SUGGESTED",
    "DrawnShape",
    "Number",
    "Scene",
    "draw",
    "is_question",
    "picture_of",
    "random_scene",
]

SUGGESTED = ("colour", "count", "shape", "number", "side")
"""Kinds of questions to suggest to users, each with a drawing of its own."""

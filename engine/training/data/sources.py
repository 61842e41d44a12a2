"""The source of a feed's rows, by its kind."""

from __future__ import annotations

from pathlib import Path

from engine.training.data.corpus import SkillSource, SudokuSource
from engine.training.data.decisions import DecisionSource
from engine.training.recipes.embedded import Feed, Recipe

Source = SudokuSource | SkillSource | DecisionSource


def open_source(feed: Feed, recipe: Recipe, seed: int, puzzles: Path) -> Source:
    """The source of a feed's rows. ``puzzles``: a file of minimal puzzles, which Sudokus are varied from."""
    if feed.kind == "sudoku":
        return SudokuSource(puzzles, recipe.canvas_length, seed)
    if feed.kind == "short" or feed.kind == "long":
        return SkillSource(recipe.canvas_length, seed, long=feed.kind == "long")
    return DecisionSource(feed.kind, recipe.canvas_length, seed)

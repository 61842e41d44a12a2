"""Opens the source of each feed's rows."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from small_models.causal_recipes import CausalRecipe
from small_models.decision_rows import DecisionSource
from small_models.gap_rows import GapSource
from small_models.picture_sources import DrawingSource, SudokuPartSource, SudokuPictureSource
from small_models.recipes import Feed, Recipe, TrainingRecipe
from small_models.rows import SkillSource, SudokuSource
from small_models.text_source import TextSource
from small_models.tool_rows import ToolSource

Source: TypeAlias = SudokuSource | SkillSource | GapSource | ToolSource | DecisionSource | DrawingSource | TextSource


def open_source(feed: Feed, recipe: TrainingRecipe, seed: int, puzzles: Path) -> Source:
    """Opens the source of a feed's rows. ``puzzles`` is a file of minimal puzzles, which Sudokus are varied from."""
    if isinstance(recipe, CausalRecipe):
        return TextSource(recipe, seed)
    assert isinstance(recipe, Recipe)
    match feed.kind:
        case "sudoku":
            return SudokuSource(puzzles, recipe.canvas_length, seed)
        case "short" | "long":
            return SkillSource(recipe.canvas_length, seed, long=feed.kind == "long")
        case "drawings" | "sudokus" | "cells":
            assert recipe.vision is not None
            pictures = {"drawings": DrawingSource, "sudokus": SudokuPictureSource, "cells": SudokuPartSource}
            return pictures[feed.kind](recipe.canvas_length, seed, recipe.vision, feed.budget, feed.kind)
        case "gap" | "gaps":
            return GapSource(recipe.canvas_length, seed, several=feed.kind == "gaps")
        case "calls" | "results":
            return ToolSource(recipe.canvas_length, seed, results=feed.kind == "results")
        case "brief" | "single" | "pair" | "joint":
            return DecisionSource(feed.kind, recipe.canvas_length, seed)
    raise AssertionError(feed.kind)

"""The source of a feed's rows, by its kind."""

from __future__ import annotations

from pathlib import Path

from engine.training.data.corpus import SkillSource, SudokuSource
from engine.training.data.decisions import DecisionSource
from engine.training.data.drawings import DrawingSource, SudokuPartSource, SudokuPictureSource
from engine.training.data.text_source import TextSource
from engine.training.recipes.causal import CausalRecipe
from engine.training.recipes.embedded import Recipe
from engine.training.recipes.recipe import Feed, TrainingRecipe

Source = SudokuSource | SkillSource | DecisionSource | DrawingSource | TextSource


def open_source(feed: Feed, recipe: TrainingRecipe, seed: int, puzzles: Path) -> Source:
    """Opens the source of a feed's rows. ``puzzles`` is a file of minimal puzzles, which Sudokus are varied from."""
    if isinstance(recipe, CausalRecipe):
        return TextSource(recipe, seed)
    assert isinstance(recipe, Recipe)
    if feed.kind == "sudoku":
        return SudokuSource(puzzles, recipe.canvas_length, seed)
    if feed.kind == "short" or feed.kind == "long":
        return SkillSource(recipe.canvas_length, seed, long=feed.kind == "long")
    if feed.kind == "drawings" or feed.kind == "sudokus" or feed.kind == "cells":
        assert recipe.vision is not None
        pictures = {"drawings": DrawingSource, "sudokus": SudokuPictureSource, "cells": SudokuPartSource}
        return pictures[feed.kind](recipe.canvas_length, seed, recipe.vision, feed.budget, feed.kind)
    assert feed.kind != "text"
    return DecisionSource(feed.kind, recipe.canvas_length, seed)

"""What each model can be asked: suggestions, placeholder and the form its prompt must have. Knows no Qt."""

from __future__ import annotations

import random
from dataclasses import dataclass

from engine import SKILLS, SUDOKU, SafelightError
from engine.tasks import skills, sudoku

SUDOKU_BINS = (("Easy", 44), ("Medium", 34), ("Hard", 27))  # label, givens
GENERIC = (
    "Explain in two sentences why the sky is blue.",
    "Write a short poem about a darkroom.",
    "Write a Python function that reverses the words of a sentence.",
)


@dataclass(frozen=True)
class Suggestion:
    """A prompt to offer; ``label`` is what its button says."""

    label: str
    prompt: str


def suggestions(model_name: str, rng: random.Random) -> list[Suggestion]:
    """Prompts that show what a model can do; puzzles are drawn afresh."""
    if model_name == SUDOKU:
        puzzles = [(label, givens, sudoku.generate(rng, givens, givens)) for label, givens in SUDOKU_BINS]
        return [Suggestion(f"{label} puzzle, {n} givens", sudoku.to_prompt(p.board)) for label, n, p in puzzles]
    texts = skills.suggestions() if model_name == SKILLS else GENERIC
    return [Suggestion(text, text) for text in texts]


def placeholder(model_name: str) -> str:
    """What an empty composer says."""
    if model_name == SUDOKU:
        return "81 digits, 0 for a blank"
    if model_name == SKILLS:
        return "A small task"
    return "Ask something"


def canvas_columns(model_name: str) -> int | None:
    """How many cells a row of the canvas has; None for as many as fit."""
    return 10 if model_name == SUDOKU else None  # nine digits and the line's end


def introduction(model_name: str) -> str:
    """What an empty conversation says of the model."""
    if model_name == SUDOKU:
        return (
            "A very small model that solves Sudoku puzzles. All 81 cells are guessed at once, doubted and guessed "
            "again; easy puzzles take a few steps, hard ones many, and some fail."
        )
    if model_name == SKILLS:
        return (
            "A very small model for small text tasks. Its answers begin as noise: tokens are accepted, doubted and "
            "drawn again, until the text stands."
        )
    return "Answers begin as noise: tokens are accepted, doubted and drawn again, until the text stands."


def prepare(model_name: str, text: str) -> str:
    """The prompt as the model wants to read it.

    Raises:
        SafelightError: there is no text, or it is not what the model reads.
    """
    if not text.strip():
        raise SafelightError("Write something first.")
    if model_name != SUDOKU:
        return text.strip()
    try:
        return sudoku.to_prompt(sudoku.parse(text))
    except sudoku.PuzzleError as error:
        if any(ch.isdigit() for ch in text):
            raise SafelightError(f"The {error}.") from error
        raise SafelightError(
            "This model only reads Sudoku puzzles: 81 digits row by row, with 0 or . for a blank."
        ) from error

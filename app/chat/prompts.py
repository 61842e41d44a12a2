"""What each model can be asked: suggestions, placeholder and the form its prompt must have. Knows no Qt."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from app.state.chat.attachment import Attachment
from app.system.i18n import tr, trn
from engine import SKILLS, SUDOKU, SafelightError


@dataclass(frozen=True)
class Suggestion:
    """A prompt to offer; ``label`` is what its button says."""

    label: str
    prompt: str


def suggestions(model_name: str, rng: random.Random) -> list[Suggestion]:
    """Prompts that show what a model can do; puzzles are drawn afresh."""
    if model_name == SUDOKU:
        from engine.tasks import sudoku  # the tasks are not needed to paint the window

        return [
            Suggestion(label, sudoku.to_prompt(sudoku.generate(rng, givens, givens).board)) for label, givens in _bins()
        ]
    if model_name == SKILLS:
        from engine.tasks import skills

        texts: Sequence[str] = skills.suggestions()  # it was trained on these very words, in English
    else:
        texts = (
            tr("Explain in two sentences why the sky is blue."),
            tr("Write a short poem about a darkroom."),
            tr("Write a Python function that reverses the words of a sentence."),
        )
    return [Suggestion(text, text) for text in texts]


def _bins() -> list[tuple[str, int]]:
    """Labels and the number of givens."""
    return [
        (tr("Easy puzzle, {n} givens", n=44), 44),
        (tr("Medium puzzle, {n} givens", n=34), 34),
        (tr("Hard puzzle, {n} givens", n=27), 27),
    ]


def placeholder(model_name: str) -> str:
    """What an empty composer says."""
    if model_name == SUDOKU:
        return tr("81 digits, 0 for a blank")
    if model_name == SKILLS:
        return tr("A small task")
    return tr("Ask something")


def canvas_columns(model_name: str) -> int | None:
    """How many cells a row of the canvas has; None for as many as fit."""
    return 10 if model_name == SUDOKU else None  # nine digits and the line's end


def introduction(model_name: str) -> str:
    """What an empty conversation says of the model."""
    if model_name == SUDOKU:
        return tr(
            "A very small model that solves Sudoku puzzles. All 81 cells are guessed at once, doubted and guessed "
            "again; easy puzzles take a few steps, hard ones many, and some fail."
        )
    if model_name == SKILLS:
        return tr(
            "A very small model for small text tasks. Its answers begin as noise: tokens are accepted, doubted and "
            "drawn again, until the text stands."
        )
    return tr("Answers begin as noise: tokens are accepted, doubted and drawn again, until the text stands.")


def prepare(model_name: str, text: str) -> str:
    """The prompt as the model wants to read it.

    Raises:
        SafelightError: there is no text, or it is not what the model reads.
    """
    if not text.strip():
        raise SafelightError(tr("Write something first."))
    if model_name != SUDOKU:
        return text.strip()
    from engine.tasks import sudoku

    try:
        return sudoku.to_prompt(sudoku.parse(text))
    except sudoku.PuzzleError as error:
        if any(ch.isdigit() for ch in text):
            raise SafelightError(f"The {error}.") from error
        raise SafelightError(
            tr("This model only reads Sudoku puzzles: 81 digits row by row, with 0 or . for a blank.")
        ) from error


def prepare_with_files(
    model_name: str, text: str, attachments: Sequence[Attachment]
) -> tuple[str, tuple[Attachment, ...]]:
    """The prompt and the files to go with it, as the model wants to read them.

    A puzzle may come as a file of its own: it becomes the prompt then.

    Raises:
        SafelightError: there is nothing to ask, or it is not what the model reads.
    """
    if not attachments:
        return prepare(model_name, text), ()
    if model_name != SUDOKU:
        if not text.strip():
            raise SafelightError(
                trn("Write what to do with the file.", "Write what to do with the files.", len(attachments))
            )
        return prepare(model_name, text), tuple(attachments)
    if text.strip() or len(attachments) > 1:
        raise SafelightError(tr("This model reads one puzzle at a time: write it, or attach one file that holds it."))
    return prepare(model_name, attachments[0].text), ()

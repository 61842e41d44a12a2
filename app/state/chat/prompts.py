"""What a model can be asked, by its traits: suggestions, and the form its prompt must have. Knows no Qt."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from app.state.chat.attachment import Attachment
from app.system.i18n import tr, trn
from engine import SafelightError
from engine.catalog import Traits
from engine.service import LoadedModel
from engine.tasks import skills, sudoku

if TYPE_CHECKING:
    from engine.tasks.drawings import Scene


class Suggestion(NamedTuple):
    """A prompt to offer; ``label`` is what its button says."""

    label: str
    prompt: str


def suggestions(traits: Traits, rng: random.Random) -> list[Suggestion]:
    """Prompts that show what a model can do, first those with most to be seen; puzzles are drawn afresh."""
    match traits.taught:
        case "puzzles":
            puzzles = [(label, sudoku.generate(rng, givens, givens)) for label, givens in _bins()]
            return [Suggestion(label, sudoku.to_prompt(puzzle.board)) for label, puzzle in puzzles]
        case "decisions" | "drawings":  # asked on a page of their own, or with a drawing: ``about_drawings``
            texts: Sequence[str] = ()
        case "skills":
            texts = skills.suggestions()  # it was trained on these very words, in English
        case "anything":
            texts = (
                tr("Explain in two sentences why the sky is blue."),
                tr("Write a short poem about a darkroom."),
                tr("Write a Python function that reverses the words of a sentence."),
            )
    return [Suggestion(text, text) for text in texts]


def about_drawings(rng: random.Random) -> dict[str, Scene]:
    """Questions to suggest to a model that sees, each with a drawing; training had none of them."""
    from engine.tasks import drawings  # Pillow, which most starts do without

    found: dict[str, Scene] = {}
    for kind in drawings.SUGGESTED:
        answer = "0"
        while answer == "0":  # what is counted is there
            example = drawings.sample(rng, "test", kind=kind)
            ((question, answer),) = example.asked
        found[question] = example.scene
    return found


def reading_note(model: LoadedModel, carries: bool = False) -> str:
    """What of a conversation a model does not read, in a sentence; empty where it reads all.

    carries: whether a message without pictures is sent with the last ones.
    """
    if not model.reads_history and not model.reads_system:
        if carries:
            return tr("This model reads only your last message, and the last picture with it")
        return tr("This model reads only your last message: nothing before it, no system prompt")
    if not model.reads_history:
        if carries:
            return tr("This model reads the system prompt, and your last message with the last picture")
        return tr("This model reads the system prompt and your last message, nothing between them")
    return "" if model.reads_system else tr("This model does not read the system prompt")


def _bins() -> list[tuple[str, int]]:
    """Labels and the number of givens: ten steps that mostly solve it, then thirty that may, then three."""
    return [
        (tr("Medium puzzle, {n} givens", n=34), 34),
        (tr("Hard puzzle, {n} givens", n=27), 27),
        (tr("Easy puzzle, {n} givens", n=44), 44),
    ]


def prepare(traits: Traits, text: str) -> str:
    """The prompt as the model wants to read it.

    Raises:
        SafelightError: there is no text, or it is not what the model reads.
    """
    if not text.strip():
        raise SafelightError(tr("Write something first."))
    if traits.prompt_format == "text":
        return text.strip()
    try:
        return sudoku.to_prompt(sudoku.parse(text))
    except sudoku.PuzzleError as error:
        if any(ch.isdigit() for ch in text):
            raise SafelightError(f"The {error}.") from error
        raise SafelightError(
            tr("This model only reads Sudoku puzzles: 81 digits row by row, with 0 or . for a blank.")
        ) from error


def prepare_with_files(
    traits: Traits, text: str, attachments: Sequence[Attachment], pictures: int = 0
) -> tuple[str, tuple[Attachment, ...]]:
    """The prompt and the files to go with it, as the model wants to read them.

    A puzzle may come as a file of its own: it becomes the prompt then. ``pictures``: how many go with it.

    Raises:
        SafelightError: there is nothing to ask, or it is not what the model reads.
    """
    if not attachments:
        if pictures and not text.strip():
            raise SafelightError(
                trn("Write what to do with the picture.", "Write what to do with the pictures.", pictures)
            )
        return prepare(traits, text), ()
    if traits.prompt_format == "text":
        if not text.strip():
            raise SafelightError(
                trn("Write what to do with the file.", "Write what to do with the files.", len(attachments))
            )
        return prepare(traits, text), tuple(attachments)
    if text.strip() or len(attachments) > 1:
        raise SafelightError(tr("This model reads one puzzle at a time: write it, or attach one file that holds it."))
    return prepare(traits, attachments[0].text), ()

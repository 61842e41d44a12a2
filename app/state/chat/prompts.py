"""Suggests prompts by a model's traits, brings prompts into the form it reads, and counts their tokens. No Qt."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from app.state.chat.attachment import Attachment, with_attachments
from app.system.i18n import tr, trn
from engine import SafelightError
from engine.catalog import TALK, Traits
from engine.service.small import puzzle_in
from engine.tasks import skills, sudoku
from engine.text.context_window import Fit
from engine.text.message import Message, with_images


class Suggestion(NamedTuple):
    """A prompt to offer; ``label`` is the text of its button."""

    label: str
    prompt: str


def suggestions(traits: Traits, rng: random.Random) -> list[Suggestion]:
    """Returns prompts that show a model's abilities, the most instructive first; puzzles are new each time."""
    if traits.taught == "puzzles":
        bins = (  # mostly solved in 10 steps, perhaps in 30, and in 3
            (tr("Medium puzzle, {n} givens", n=34), 34),
            (tr("Hard puzzle, {n} givens", n=27), 27),
            (tr("Easy puzzle, {n} givens", n=44), 44),
        )
        return [
            Suggestion(label, sudoku.to_prompt(sudoku.generate(rng, givens, givens).board)) for label, givens in bins
        ]
    if traits.taught == "drawings":  # they have to be attached
        return []
    texts: Sequence[str] = (
        tr("Explain in two sentences why the sky is blue."),
        tr("Write a short poem about a darkroom."),
        tr("Write a Python function that reverses the words of a sentence."),
    )
    if traits.wants_wording:
        texts = skills.suggestions()  # it was trained on these very words, in English
    return [Suggestion(text, text) for text in texts]


def small_suggestions(rng: random.Random) -> list[Suggestion]:
    """Returns prompts for the small models as one: some that develop on a canvas, and own words."""
    canvas, puzzle = skills.suggestions(), sudoku.generate(rng, 34, 34)
    board = Suggestion(tr("Solve this Sudoku"), sudoku.to_prompt(puzzle.board))
    if not TALK.is_here:
        return [*(Suggestion(text, text) for text in canvas), board]
    own = (
        tr("Write a short poem about the sea."),
        tr("Explain why the sky is blue."),
        tr("Write a Python function that adds two numbers."),
    )
    shown = [Suggestion(text, text) for text in (canvas[0], canvas[5], canvas[2])]
    return [*shown, board, *(Suggestion(text, text) for text in own)]


def prepare(traits: Traits, text: str) -> str:
    """Returns the prompt in the form that the model reads.

    Raises:
        SafelightError: there is no text, or the model cannot read it.
    """
    if not text.strip():
        raise SafelightError(tr("Write something first."))
    if traits.prompt_format == "text":
        return text.strip()
    try:
        return sudoku.to_prompt(puzzle_in(text) or sudoku.parse(text))
    except sudoku.PuzzleError as error:
        if any(ch.isdigit() for ch in text):
            raise SafelightError(f"The {error}.") from error
        raise SafelightError(
            tr("This model only reads Sudoku puzzles: 81 digits row by row, with 0 or . for a blank.")
        ) from error


def prepare_with_files(
    traits: Traits, text: str, attachments: Sequence[Attachment], pictures: int = 0
) -> tuple[str, tuple[Attachment, ...]]:
    """Returns the prompt and its files in the form that the model reads.

    A puzzle may come as a file, which then becomes the prompt. ``pictures`` is their number.

    Raises:
        SafelightError: there is no text, or the model cannot read it.
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
    if board := puzzle_in(with_attachments(text, attachments)):
        return sudoku.to_prompt(board), ()
    if text.strip() or len(attachments) > 1:
        raise SafelightError(tr("This model reads one puzzle at a time: write it, or attach one file that holds it."))
    return prepare(traits, attachments[0].text), ()


@dataclass(frozen=True)
class PromptCount:
    """Counts the tokens of messages. Two are equal if they count alike.

    Args:
        text: returns the tokens of messages without images, and of tools if there are any.
        image: returns the tokens of an image from its width, height and budget; None if the model sees no images.
        budget: most tokens of an image.
        tools: that the model is offered, as chat templates take them.
    """

    text: Callable[..., int]
    image: Callable[[int, int, int], int] | None
    budget: int
    tools: tuple[Mapping[str, Any], ...] = ()

    def __call__(self, messages: Sequence[Message]) -> int:
        images = (image for message in messages for image in message.get("images", ()))
        seen = sum(self.cost(image["width"], image["height"]) for image in images)
        bare = [with_images(message, ()) for message in messages]
        return (self.text(bare, self.tools) if self.tools else self.text(bare)) + seen

    def cost(self, width: int, height: int) -> int:
        """Returns the tokens of an image of that size in pixels."""
        return 0 if self.image is None else self.image(width, height, self.budget)


def remark(fit: Fit | None) -> str:
    """Returns a remark to show before sending; empty if everything fits or nothing is known yet."""
    if fit is None or not fit.dropped_turns:
        return problem(fit)
    return problem(fit) or trn(
        "The oldest turn no longer fits and will be left out.",
        "The oldest {count} turns no longer fit and will be left out.",
        fit.dropped_turns,
    )


def problem(fit: Fit | None) -> str:
    """Returns the reason why the prompt cannot be sent, in a sentence; empty if it can."""
    return tr(fit.problem) if fit is not None and fit.problem else ""

"""The canvas that answers are read from: its fixed text, and the slots that are filled with noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Annotated

from engine.config import MAX_CANVAS, Tokens
from engine.declared import whole
from engine.errors import SafelightError, quoted
from engine.tasks.decisions.questions import Decision, Question
from engine.tasks.decisions.wording import Encode, Labels

CANVAS_UNIT = 16  # tokens of a canvas with one question; other canvases are a multiple of it
NOISE = -1
"""Marks a position of the canvas that gets a random token."""


@dataclass(frozen=True)
class Slot:
    """The position where a question is answered, and for each label the tokens that count, with and without a space."""

    position: Annotated[int, whole(0, MAX_CANVAS)]
    labels: tuple[Tokens, ...]


@dataclass(frozen=True)
class Layout:
    """A canvas (C,) of token ids, ``NOISE`` at the slots, and its slots in the order of the questions."""

    canvas: tuple[int, ...]
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class CanvasTokens:
    """The parts of a model that a layout needs: its encoder, its end and padding tokens, its canvas length."""

    encode: Encode
    end: int
    pad: int
    canvas_length: int


def layout_of(decision: Decision, labels: Labels, tokens: CanvasTokens) -> Layout:
    """Lays out the canvas of a decision.

    Raises:
        SafelightError: it does not fit the model's canvas, or a label is not one token; several questions that are not
            asked jointly.
    """
    if not decision.is_joint:
        if len(decision.questions) > 1:
            raise SafelightError("a canvas has one question, or several that are asked jointly; ask one at a time")
        body, slots = [NOISE], [Slot(0, _ids(decision.questions[0], labels, tokens.encode, spaced=False))]
    else:
        body, slots = [], []
        for number, question in enumerate(decision.questions, start=decision.first):
            body += tokens.encode(f"{number}: ")
            slots.append(Slot(len(body), _ids(question, labels, tokens.encode, spaced=True)))
            body += [NOISE, *tokens.encode("\n")]
    # without a row of padding after it the model does not read the end as an end, and labels lose probability
    width = -(-(len(body) + 2) // CANVAS_UNIT) * CANVAS_UNIT
    if width > tokens.canvas_length:
        raise SafelightError(
            f"{len(slots)} questions take a canvas of {width} tokens; the model's has {tokens.canvas_length}"
        )
    canvas = [*body, tokens.end, *[tokens.pad] * (width - len(body) - 1)]
    return Layout(tuple(canvas), tuple(slots))


def split(
    questions: Sequence[Question], fits: Callable[[Sequence[Question], int], bool]
) -> list[tuple[int, tuple[Question, ...]]]:
    """Splits questions into the fewest runs of nearly equal length that fit, each with the number of its first
    question.

    Args:
        fits: True if questions, numbered from the second argument on, fit one canvas and the model's context.

    Raises:
        SafelightError: one question alone does not fit.
    """
    for parts in count(1):
        if parts > len(questions):
            raise SafelightError("a question does not fit the model's canvas or context; shorten it or the state")
        edges = [len(questions) * part // parts for part in range(parts + 1)]
        runs = [(start + 1, tuple(questions[start:stop])) for start, stop in pairwise(edges)]
        if all(fits(run, first) for first, run in runs):
            return runs
    raise AssertionError


def _ids(question: Question, labels: Labels, encode: Encode, spaced: bool) -> tuple[tuple[int, ...], ...]:
    """Returns the token ids of a question's labels."""
    texts = labels.of_question(question)
    all_ids = [list(encode(text)) for text in texts]
    for text, ids in zip(texts, all_ids, strict=True):
        if len(ids) != 1:
            raise SafelightError(f"this model's tokenizer splits the label {quoted(text)}; it cannot decide")
    if spaced:
        for text, ids in zip(texts, all_ids, strict=True):
            with_space = list(encode(f" {text}"))
            if len(with_space) == 1:
                ids.extend(with_space)
    flat = [token for ids in all_ids for token in set(ids)]
    if len(set(flat)) < len(flat):
        raise SafelightError("this model's tokenizer has one token for two labels; it cannot decide")
    return tuple(tuple(dict.fromkeys(ids)) for ids in all_ids)

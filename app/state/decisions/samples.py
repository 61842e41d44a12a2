"""Sample decisions of the kinds that the embedded model is trained on. Knows neither Qt nor a model."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.state.decisions.drafts import QuestionDraft
from app.state.decisions.sheet import QuestionSheet
from engine.tasks.decisions.questions import OneOf, Option, Question, Score, YesNo

if TYPE_CHECKING:
    from engine.tasks.drawings import Scene

LONGEST_TITLE = 48  # characters


@dataclass(frozen=True)
class Sample:
    """A state and questions about it."""

    state: str
    questions: tuple[Question, ...]

    @property
    def title(self) -> str:
        """The beginning of the state."""
        return self.state if len(self.state) <= LONGEST_TITLE else f"{self.state[: LONGEST_TITLE - 1].rstrip()}…"

    @property
    def drafts(self) -> tuple[QuestionDraft, ...]:
        """The questions as drafts."""
        return tuple(map(QuestionDraft.from_question, self.questions))

    def sheet(self, before: QuestionSheet) -> QuestionSheet:
        """Returns a sheet of the questions with the settings of another sheet."""
        return QuestionSheet(
            self.drafts, is_joint=before.is_joint, repeats=before.repeats, temperature=before.temperature
        )


def samples() -> tuple[Sample, ...]:
    """Returns all samples, the default first. None was in the training data of the small decider."""
    return (
        Sample(
            "The number is 58. Zoe comes on Saturday.",
            (
                OneOf("When does Zoe come?", _options("workday", "weekend"), "part"),
                YesNo("Is the number smaller than 77?", name="under 77"),
                Score("How large is the number?", _options("0 to 24", "25 to 49", "50 to 74", "75 to 99"), "amount"),
            ),
        ),
        Sample(
            "The number is 39. The list is m, p, k.",
            (
                YesNo("Is the number even?", name="even"),
                YesNo("Is e in the list?", name="e"),
                Score("How many letters are in the list?", _options("one", "two", "three", "four"), "length"),
            ),
        ),
    )


def drawing_sample(rng: random.Random) -> tuple[Scene, tuple[Question, ...]]:
    """Returns a drawing and a question of each type about it."""
    from engine.tasks.drawings import KINDS, MOST_SHAPES, SHAPES, random_scene  # Pillow, which most starts do not need

    shape = None
    while shape is None:
        scene = random_scene(rng)
        shape, presence, count = (KINDS[kind](rng, scene) for kind in ("shape", "presence", "count"))
    assert presence is not None
    assert count is not None
    numbers = _options("none", "one", "two", "three", "four", "five")[: MOST_SHAPES + 1]
    return scene, (
        OneOf(shape[0], _options(*SHAPES), "shape"),
        YesNo(presence[0], name="presence"),
        Score(count[0], numbers, "count"),
    )


def _options(*names: str) -> tuple[Option, ...]:
    return tuple(map(Option, names))

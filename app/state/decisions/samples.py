"""Sample decisions of the kinds that the embedded model is trained on. Knows neither Qt nor a model."""

from __future__ import annotations

from dataclasses import dataclass

from app.state.decisions.drafts import QuestionDraft
from engine.tasks.decisions.questions import OneOf, Option, Question, Score, YesNo

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


def samples() -> tuple[Sample, ...]:
    """Returns all samples, the default first. None was in the training data of the small decider."""
    return (
        Sample(
            "The number is 58. Zoe comes on Saturday.",
            (
                OneOf("When does Zoe come?", _options("workday", "weekend")),
                YesNo("Is the number smaller than 77?"),
                Score("How large is the number?", _options("0 to 24", "25 to 49", "50 to 74", "75 to 99")),
            ),
        ),
        Sample(
            "The number is 39. The list is m, p, k.",
            (
                YesNo("Is the number even?"),
                YesNo("Is e in the list?"),
                Score("How many letters are in the list?", _options("one", "two", "three", "four")),
            ),
        ),
    )


def _options(*names: str) -> tuple[Option, ...]:
    return tuple(map(Option, names))

"""Sample decisions of the kinds that the embedded model is trained on. Knows neither Qt nor a model."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from app.state.decisions.drafts import QuestionDraft
from app.state.decisions.sheet import QuestionSheet
from engine.tasks.decisions.examples import suggestions
from engine.tasks.decisions.questions import Question

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


@cache
def samples() -> tuple[Sample, ...]:
    """Returns all samples, the default first."""
    return tuple(Sample(state, questions) for state, questions in suggestions())


def drawing_sample(rng: random.Random) -> tuple[Scene, tuple[Question, ...]]:
    """Returns a drawing and a question of each type about it; the choice is held out of training."""
    from engine.tasks import drawings  # imports Pillow, which most starts do not need

    drawn = drawings.sample_decision(rng, "test", kind="shape")
    texts = [drawings.KINDS[kind][0](rng, drawn.scene) for kind in ("presence", "count")]
    asked = (*drawn.asked, *(drawings.as_decision(rng, drawn.scene, text[0]) for text in texts if text is not None))
    return drawn.scene, tuple(replace(one.question, name=one.family) for one in asked)

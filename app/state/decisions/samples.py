"""Decisions to begin with, small enough for the embedded model. Knows neither Qt nor a model."""

from __future__ import annotations

from dataclasses import dataclass

from app.state.decisions.drafts import QuestionDraft
from app.state.decisions.sheet import QuestionSheet
from engine.tasks.decisions.questions import OneOf, Option, Question, Score, YesNo


@dataclass(frozen=True)
class Sample:
    """A state and questions about it; its title is in English, shown through ``tr``."""

    title: str
    state: str
    questions: tuple[Question, ...]
    is_joint: bool = False

    @property
    def sheet(self) -> QuestionSheet:
        """Its questions, to be asked and changed."""
        return QuestionSheet(tuple(map(QuestionDraft.of, self.questions)), is_joint=self.is_joint)


SAMPLES = (
    Sample(
        "Coins, one question",
        "Ann has 7 coins. Ben has 12 coins.",
        (OneOf("Who has more coins?", (Option("Ann"), Option("Ben")), "more"),),
    ),
    Sample(
        "Coins, three questions in one canvas",
        "Ann has 7 coins. Ben has 12 coins.",
        (
            OneOf("Who has more coins?", (Option("Ann"), Option("Ben")), "more"),
            YesNo("Does Ann have an even number of coins?", name="even"),
            YesNo("Does Ben have 12 coins?", name="twelve"),
        ),
        is_joint=True,
    ),
    Sample(
        "A message, by urgency",
        "The heating in the nursery has been out since last night, and it is 9 degrees in there.",
        (
            Score("How urgent is it?", (Option("can wait"), Option("this week"), Option("today")), "urgency"),
            OneOf("Whom does it concern?", (Option("plumber"), Option("teacher"), Option("cook")), "who"),
        ),
    ),
)

"""Decisions with known right answers, for training and scoring a small model.

A state is one to three facts. One question in sixteen is held out by its content: the numbers, words or days that
decide it and its options, whatever the wording. An example of the training split asks none of those; one of the test
split asks at least one, and only those count.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Literal

from engine.tasks.decisions.questions import Decision, OneOf, Question, Score, YesNo
from engine.tasks.decisions.wording import YES_NO, Labels, user_text
from small_models import decision_facts as facts
from small_models import decision_rules as rules
from small_models.skills import is_held_out_content

Split = Literal["train", "test"]
Form = Literal["brief", "single", "pair", "joint"]

FORMS: dict[Form, tuple[tuple[int, ...], int]] = {
    "brief": ((1,), 112),
    "single": ((1,), 168),
    "pair": ((2,), 272),
    "joint": ((3, 4, 4), 400),
}
"""Numbers of questions that an example of each form asks, and the maximum length of its message in characters.

Two questions fit a canvas of 16, more take 32. Brief and single examples both ask one question; the short ones are
separate, so that little of a batch is padding.
"""

LABELS = Labels(YES_NO[1])
"""Labels of a model whose tokens are characters."""

_FEWER_YES_NO = 0.4  # share of them drawn again; long examples are dropped, and those questions are short
_MAX_TRIES = 100_000


@dataclass(frozen=True)
class DecisionExample:
    """A decision with, for each question, the index of the right option, its family, and True if it is held out."""

    decision: Decision
    answers: tuple[int, ...]
    families: tuple[str, ...]
    held_out: tuple[bool, ...]


def is_held_out(state: str, question: Question) -> bool:
    """True if a question about a state is kept for the test split, by a stable hash of what decides it."""
    solved = rules.solve(state, question)
    return solved is not None and is_held_out_content(solved.content)


def sample(rng: random.Random, split: Split, form: Form) -> DecisionExample:
    """Draws an example of a split and a form."""
    for _ in range(_MAX_TRIES):
        example = _draw(rng, form)
        if example is not None and any(example.held_out) == (split == "test"):
            return example
    raise RuntimeError(f"no example of {form} for the {split} split")


def table(count: int, seed: int = 0) -> tuple[tuple[Question, ...], list[tuple[str, tuple[int, ...]]]]:
    """Returns questions, and ``count`` states to ask them about, each with the indices of the right options.

    At least one of the answers to a state is held out of training.
    """
    questions = (
        OneOf("Is the number even or odd?", facts.options(("even", "odd")), "parity"),
        Score("How large is the number?", facts.options(facts.QUARTERS), "amount"),
        YesNo("Is k in the list?", name="k"),
    )
    rng = random.Random(seed)
    rows: list[tuple[str, tuple[int, ...]]] = []
    while len(rows) < count:
        letters = rng.sample(ascii_lowercase, 2) + ["k"] * rng.randint(0, 1)
        listed = ", ".join(rng.sample(letters, len(letters)))
        state = f"The number is {rng.randint(0, facts.LARGEST)}. The list is {listed}."
        if letters.count("k") > 1 or not any(is_held_out(state, question) for question in questions):
            continue
        solved = [rules.solve(state, question) for question in questions]
        rows.append((state, tuple(one.answer for one in solved if one is not None)))
    return questions, rows


def _draw(rng: random.Random, form: Form) -> DecisionExample | None:
    """Draws an example; None if it is too long."""
    counts, longest = FORMS[form]
    count = rng.choice(counts)
    least, most = {"brief": (1, 1), "single": (2, 3), "pair": (1, 2), "joint": (2, 3)}[form]
    known = [make(rng) for make in rng.sample(facts.FACTS, rng.randint(least, most))]
    asked: list[facts.Asked] = []
    while len(asked) < count:
        drawn = rng.choice(rng.choice(known).questions)(rng)
        if isinstance(drawn.question, YesNo) and rng.random() < _FEWER_YES_NO:
            continue
        if all(drawn.question.instructions != other.question.instructions for other in asked):
            asked.append(drawn)
    state = " ".join(fact.text for fact in known)
    decision = Decision(state, tuple(one.question for one in asked), is_joint=form in ("pair", "joint"))
    length = len(user_text(decision, LABELS))
    if length > longest or (form == "single" and length <= FORMS["brief"][1]):
        return None
    return DecisionExample(
        decision,
        tuple(one.answer for one in asked),
        tuple(one.family for one in asked),
        tuple(is_held_out(state, one.question) for one in asked),
    )

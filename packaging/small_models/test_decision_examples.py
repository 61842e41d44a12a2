"""The decisions that the skills model learns: drawn answers against the rules that read them, and the two splits."""

from __future__ import annotations

import random

import pytest

from app.state.decisions.drafts import samples
from engine.tasks.decisions.questions import OneOf, Option, Score, YesNo
from engine.tasks.decisions.wording import user_text
from small_models import decision_examples as examples
from small_models import decision_facts as facts
from small_models import decision_rules as rules


@pytest.mark.parametrize("form", examples.FORMS)
def test_the_rules_read_the_answers_that_were_drawn(form: examples.Form) -> None:
    rng = random.Random(3)
    counts, longest = examples.FORMS[form]
    for split in ("train", "test"):
        for _ in range(120):
            example = examples.sample(rng, split, form)
            decision = example.decision
            assert len(decision.questions) in counts
            assert decision.is_joint == (form in ("pair", "joint"))
            assert len(user_text(decision, examples.LABELS)) <= longest
            assert any(example.held_out) == (split == "test")
            for question, answer in zip(decision.questions, example.answers, strict=True):
                solved = rules.solve(decision.state, question)
                assert solved is not None
                assert solved.answer == answer


@pytest.mark.parametrize("make", facts.FACTS)
def test_every_question_of_a_fact_has_one_right_answer(make: object) -> None:
    rng = random.Random(5)
    for _ in range(60):
        fact = make(rng)  # type: ignore[operator]
        for draw in fact.questions:
            asked = draw(rng)
            solved = rules.solve(fact.text, asked.question)
            assert solved is not None
            assert solved.answer == asked.answer


def test_what_the_state_does_not_say_has_no_answer() -> None:
    state = "Mia comes on Friday."
    assert rules.solve(state, YesNo("Is the number even?")) is None
    assert rules.solve(state, YesNo("Is f in the list?")) is None
    assert rules.solve(state, YesNo("Does Ben come before Sunday?")) is None
    assert rules.solve(state, YesNo("Does Mia come before Someday?")) is None
    assert rules.solve(state, YesNo("Is Mia nice?")) is None
    assert rules.solve(state, OneOf("When does Mia come?", (Option("morning"), Option("weekend")))) is None
    levels = (Option("5 to 9"), Option("10 to 14"))
    assert rules.solve("The number is 3.", Score("How large is the number?", levels)) is None
    assert rules.solve("The number is 3.", OneOf("Is the number even?", (Option("yes"), Option("maybe")))) is None


def test_what_is_suggested_was_not_learnt_and_fits_one_canvas() -> None:
    for one in samples():
        for question in one.questions:
            assert examples.is_held_out(one.state, question)

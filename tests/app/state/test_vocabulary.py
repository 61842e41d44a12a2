"""The words of the small decider's training: all of them, and no others."""

from __future__ import annotations

import random

from app.state.decisions.drafts import QuestionDraft
from app.state.decisions.sheet import QuestionSheet
from app.state.decisions.vocabulary import unknown_words
from engine.tasks.decisions.examples import FORMS, sample
from engine.tasks.decisions.questions import YesNo


def test_no_word_of_a_training_example_is_unknown() -> None:
    rng = random.Random(3)
    for form in FORMS:
        for _ in range(60):
            decision = sample(rng, "train", form).decision
            sheet = QuestionSheet(tuple(map(QuestionDraft.from_question, decision.questions)))
            assert unknown_words(decision.state, sheet) == []


def test_other_words_are_named_once_in_order() -> None:
    sheet = QuestionSheet((QuestionDraft.from_question(YesNo("Is this mail urgent?", name="urgent")),))
    assert unknown_words("Dear Zoe, the mail is late.", sheet) == ["dear", "mail", "late", "this", "urgent"]

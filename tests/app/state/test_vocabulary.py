"""The words of the small decider's training, and others."""

from __future__ import annotations

from app.state.decisions.drafts import QuestionDraft
from app.state.decisions.sheet import QuestionSheet
from app.state.decisions.vocabulary import unknown_words
from engine.tasks.decisions.questions import YesNo


def test_other_words_are_named_once_in_order() -> None:
    sheet = QuestionSheet((QuestionDraft.from_question(YesNo("Is this mail urgent?", name="urgent")),))
    assert unknown_words("Dear Zoe, the mail is late.", sheet) == ["dear", "mail", "late", "this", "urgent"]

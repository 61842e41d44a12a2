"""Questions as cards: written, changed and mended by hand, without a model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.decisions.page import DecisionsPage
from app.decisions.questions import QuestionEditor
from app.state.decisions.drafts import QuestionDraft, samples
from engine.tasks.decisions.answers import LabelRead, answer_of
from engine.tasks.decisions.questions import Option
from tests.app.canvas.pointing import shown


@pytest.fixture
def one(qtbot: QtBot) -> DecisionsPage:
    made = shown(qtbot, DecisionsPage(), 1000, 700)
    made.questions.show_drafts(samples()[0].drafts)
    return made


def editor_of(one: DecisionsPage, place: int) -> QuestionEditor:
    return one.questions.cards[place].editor


def test_a_question_is_written_by_hand_and_removed(qtbot: QtBot, one: DecisionsPage) -> None:
    one.questions.show_drafts(())
    assert one.questions.teaching.isVisible()
    with qtbot.waitSignal(one.questions.changed):
        one.questions.adders[1].click()
    editor = editor_of(one, 0)
    assert editor.instructions.hasFocus()
    qtbot.keyClicks(editor.instructions, "Which fruit?")
    editor.add_option.click()
    for place, name in enumerate(("apple", "pear", "fig")):
        qtbot.keyClicks(editor.rows[place], name)
    options = (Option("apple"), Option("pear"), Option("fig"))
    assert one.questions.drafts == (QuestionDraft("choice", "Which fruit?", options),)
    editor.done.click()
    assert one.questions.cards[0].editor is None
    assert one.questions.cards[0].asked.text() == "Which fruit?"
    one.questions.cards[0].edit.click()
    editor_of(one, 0).remove.click()
    assert one.questions.drafts == ()


def test_another_type_keeps_what_is_asked(one: DecisionsPage) -> None:
    one.questions.cards[0].edit.click()
    editor = editor_of(one, 0)
    editor.kind.activated.emit(2)
    draft = one.questions.drafts[0]
    assert (draft.kind, draft.instructions) == ("score", "When does Zoe come?")
    assert [option.name for option in draft.options] == ["workday", "weekend"]
    editor.kind.activated.emit(0)
    assert one.questions.drafts[0].kind == "yes-no"
    assert not editor.add_option.isVisible()
    one.questions.cards[2].edit.click()
    assert [card.editor is not None for card in one.questions.cards] == [False, False, True]


def test_what_is_missing_is_named_at_its_field(one: DecisionsPage) -> None:
    draft = one.questions.drafts[0]
    one.questions.show_drafts([replace(draft, options=(draft.options[0], Option("")))])
    assert one.questions.find_problems()
    editor = editor_of(one, 0)
    field = editor.rows[1]
    assert field.hasFocus()
    assert field.property("wrong")
    assert editor.problem.text() == field.accessibleDescription() != ""
    field.setText("Eve")
    field.textEdited.emit("Eve")
    assert not editor.problem.isVisible()
    assert not field.property("wrong")


def test_bars_say_the_answer_and_what_speaks_against_it(one: DecisionsPage) -> None:
    question = samples()[0].questions[0]
    card = one.questions.cards[0]
    for reads, is_answer in (([LabelRead((-0.1, -3.0))], True), ([LabelRead((-5.0, -7.0), False)] * 2, False)):
        card.show_answer(answer_of(question, reads), reads)
        assert "workday" in card.bars.accessibleDescription()
        assert card.warning.isVisible() != is_answer
    assert "2 of 2 reads agree" in card.facts.text()
    card.show_draft(card.draft)
    assert card.answer is None


def test_in_a_narrow_window_the_state_is_above_the_questions(qtbot: QtBot, one: DecisionsPage) -> None:
    state, questions = one.column, one.questions
    assert state.mapTo(one, state.rect().topLeft()).x() < questions.mapTo(one, questions.rect().topLeft()).x()
    one.resize(420, 700)
    qtbot.waitUntil(lambda: questions.mapTo(one, questions.rect().topLeft()).y() > state.height())


def test_tab_goes_through_the_fields_in_their_order(qtbot: QtBot, one: DecisionsPage) -> None:
    one.questions.cards[0].edit.click()
    editor = editor_of(one, 0)
    editor.add_option.click()
    qtbot.waitUntil(editor.rows[2].isVisible)
    editor.instructions.setFocus()
    seen = []
    for _ in range(8):  # at last what adds an option, and the next question
        qtbot.keyClick(one.focusWidget(), Qt.Key.Key_Tab)
        seen.append(one.focusWidget())
    assert [part for part in seen if part in editor.rows] == editor.rows
    assert one.focusWidget() is one.questions.cards[1].edit

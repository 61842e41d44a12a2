"""Questions as cards: written, changed and mended by hand, without a model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.decisions.one.editor import QuestionEditor
from app.decisions.one.view import OneState
from app.design import motion
from app.state.decisions.drafts import QuestionDraft
from app.state.decisions.samples import samples
from app.state.decisions.sheet import QuestionSheet
from engine.tasks.decisions.answers import LabelRead, answer_of
from engine.tasks.decisions.questions import OneOf, Option


@pytest.fixture
def one(qtbot: QtBot) -> OneState:
    made = OneState()
    qtbot.addWidget(made)
    made.resize(1000, 700)
    made.show()
    made.questions.show_sheet(samples()[0].sheet(QuestionSheet()))
    return made


def editor_of(one: OneState, place: int) -> QuestionEditor:
    editor = one.questions.cards[place].editor
    assert editor is not None
    return editor


def test_a_question_is_written_by_hand(qtbot: QtBot, one: OneState) -> None:
    one.questions.show_sheet(QuestionSheet())
    assert one.questions.teaching.isVisible()
    with qtbot.waitSignal(one.questions.changed):
        one.questions.adders[1].click()
    editor = editor_of(one, 0)
    assert editor.instructions.hasFocus()
    qtbot.keyClicks(editor.instructions, "Which fruit?")
    editor.add_option.click()
    for place, name in enumerate(("apple", "pear", "fig")):
        qtbot.keyClicks(editor.rows[place][0], name)
    qtbot.keyClicks(editor.rows[2][1], "a fig")
    draft = one.questions.sheet.questions[0]
    options = (Option("apple"), Option("pear"), Option("fig", "a fig"))
    assert draft == QuestionDraft("choice", "q1", "Which fruit?", options)
    assert one.questions.sheet.problems == {}
    one.questions.cards[0].done.click()
    assert one.questions.cards[0].editor is None
    assert one.questions.cards[0].asked.text() == "Which fruit?"


def test_another_type_keeps_what_is_asked(one: OneState) -> None:
    one.questions.cards[0].edit.click()
    editor = editor_of(one, 0)
    editor.kind.setCurrentIndex(2)
    editor.kind.activated.emit(2)
    draft = one.questions.sheet.questions[0]
    assert (draft.kind, draft.instructions) == ("score", "When does Zoe come?")
    assert [option.name for option in draft.options] == ["workday", "weekend"]
    editor.kind.activated.emit(0)
    assert one.questions.sheet.questions[0].kind == "yes-no"
    assert not editor.add_option.isVisible()


def test_one_question_at_a_time_is_unfolded_and_moved(one: OneState) -> None:
    names = [draft.name for draft in one.questions.sheet.questions]
    one.questions.cards[0].edit.click()
    one.questions.cards[2].edit.click()
    assert [card.editor is not None for card in one.questions.cards] == [False, False, True]
    one.questions.cards[2].tools[0].click()
    assert [draft.name for draft in one.questions.sheet.questions] == [names[0], names[2], names[1]]
    assert one.questions.cards[1].editor is not None
    assert not one.questions.cards[0].tools[0].isEnabled()
    one.questions.cards[1].tools[2].click()
    assert len(one.questions.cards) == 4
    one.questions.cards[0].tools[3].click()
    assert len(one.questions.sheet) == 3


def test_what_is_missing_is_named_at_its_field(one: OneState) -> None:
    sheet = one.questions.sheet
    draft = sheet.questions[0]
    options = (draft.options[0], Option(""), *draft.options[2:])
    one.questions.show_sheet(sheet.changed(0, replace(draft, options=options)))
    one.questions.show_problems(one.questions.sheet.problems)
    editor = editor_of(one, 0)
    field = editor.rows[1][0]
    assert field.hasFocus()
    assert field.property("wrong")
    assert editor.problem.text() == field.accessibleDescription() != ""
    field.setText("Eve")
    field.textEdited.emit("Eve")
    assert not editor.problem.isVisible()
    assert not field.property("wrong")


def test_bars_say_the_answer_and_what_speaks_against_it(one: OneState) -> None:
    question = one.questions.sheet.questions[0].question()
    assert isinstance(question, OneOf)
    card = one.questions.cards[0]
    card.show_answer(answer_of(question, [LabelRead((-0.1, -3.0))]))
    assert "workday" in card.bars.accessibleDescription()
    assert not card.warning.isVisible()
    before = card.bars.grab().toImage()
    motion.set_reduced(True)
    assert card.bars.grab().toImage() != before  # it has its length at once
    card.show_answer(answer_of(question, [LabelRead((-5.0, -7.0), False), LabelRead((-6.0, -5.0), False)]))
    assert card.warning.isVisible()
    assert "2 reads" in card.facts.text()
    card.editor = None
    card.show_draft(card.draft)
    assert card.bars.answer is None


def test_in_a_narrow_window_the_state_stands_above_the_questions(qtbot: QtBot, one: OneState) -> None:
    state, questions = one.column, one.questions
    assert state.mapTo(one, state.rect().topLeft()).x() < questions.mapTo(one, questions.rect().topLeft()).x()
    one.resize(420, 700)
    qtbot.waitUntil(lambda: questions.mapTo(one, questions.rect().topLeft()).y() > state.height())
    qtbot.keyClick(one.column.state, Qt.Key.Key_Tab)


def test_tab_goes_through_the_fields_in_their_order(qtbot: QtBot, one: OneState) -> None:
    one.questions.cards[0].edit.click()
    editor = editor_of(one, 0)
    editor.add_option.click()
    first, second, third = editor.rows
    qtbot.waitUntil(third[1].isVisible)
    editor.instructions.setFocus()
    seen = []
    for _ in range(9):
        qtbot.keyClick(one.focusWidget(), Qt.Key.Key_Tab)
        seen.append(one.focusWidget())
    assert [part for part in seen if part in (*first, *second, *third)] == [*first, *second, *third]
    for _ in range(2):  # what adds an option, the next question
        qtbot.keyClick(one.focusWidget(), Qt.Key.Key_Tab)
    assert one.focusWidget() is one.questions.cards[1].edit

"""The page with a stand-in engine: what cannot be asked, what fails, what is remembered, a model without a canvas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.decisions.controller import DecisionsController
from app.decisions.question_store import NAME, read_sheet
from app.state.decisions.drafts import QuestionDraft
from app.state.decisions.samples import samples
from engine import DECIDER, SKILLS
from engine.catalog import AUTO
from engine.tasks.decisions.questions import YesNo
from tests.app.decisions.far_engine import FarEngine

Open = Callable[..., AppContext]


@pytest.fixture
def fake() -> FarEngine:
    """In place of the usual stand-in."""
    return FarEngine()


@pytest.fixture
def opened(qtbot: QtBot, open_context: Open) -> Callable[..., DecisionsController]:
    """Opens the page, with a model or without."""

    def open_page(**options: str | None) -> DecisionsController:
        made = DecisionsController(open_context(**options))
        qtbot.addWidget(made.page)
        made.page.resize(1000, 700)
        made.page.show()
        return made

    return open_page


def idle(qtbot: QtBot, page: DecisionsController) -> None:
    qtbot.waitUntil(lambda: not page.is_busy)


def test_without_a_model_one_is_offered(qtbot: QtBot, opened: Callable[..., DecisionsController]) -> None:
    page = opened(model=None)
    one = page.page.one
    assert not one.decide.isEnabled()
    assert one.message.text() != ""
    one.load.click()
    qtbot.waitUntil(one.decide.isEnabled)
    assert not one.load.isVisible()


def test_a_small_model_that_was_not_trained_for_it_may_be_asked_and_another_is_offered(
    qtbot: QtBot, opened: Callable[..., DecisionsController]
) -> None:
    one = opened(model=SKILLS).page.one
    qtbot.waitUntil(one.decide.isEnabled)
    assert "was not trained to decide" in one.message.text()
    one.load.click()
    qtbot.waitUntil(lambda: one.message.text() == "")
    assert one.decide.isEnabled()
    assert not one.load.isVisible()


def test_in_auto_the_model_that_was_made_for_it_decides_by_itself(
    qtbot: QtBot, opened: Callable[..., DecisionsController]
) -> None:
    page = opened(model=AUTO)
    one, context = page.page.one, page._context
    qtbot.waitUntil(one.decide.isEnabled)
    assert (one.message.text(), one.load.isVisible()) == ("", False)
    assert context.model is not None
    assert context.model.path_or_id != DECIDER
    one.decide.click()
    qtbot.waitUntil(lambda: one._reading is not None and one._reading.is_over)
    assert context.model.path_or_id == DECIDER
    assert context.is_auto
    assert one.questions.cards[0].bars.answer is not None
    one.decide.click()  # it is there now
    idle(qtbot, page)
    context.give_back()
    assert context.is_auto


def test_a_model_that_was_chosen_meanwhile_is_not_asked(
    qtbot: QtBot, opened: Callable[..., DecisionsController]
) -> None:
    page = opened(model=AUTO)
    one, context = page.page.one, page._context
    qtbot.waitUntil(one.decide.isEnabled)
    one.decide.click()
    context.load(SKILLS)
    qtbot.waitUntil(lambda: context.model is not None)
    assert not page.is_busy
    assert one._reading is None


def test_an_answer_with_little_on_the_options_is_none(
    qtbot: QtBot, fake: FarEngine, opened: Callable[..., DecisionsController]
) -> None:
    page = opened(model=DECIDER)
    one = page.page.one
    for mass, is_answer in ((0.51, True), (0.49, False), (0.001, False)):
        fake.mass = mass
        one.clear_reading()
        one.decide.click()
        qtbot.waitUntil(lambda: one._reading is not None and one._reading.is_over)
        bars = one.questions.cards[0].bars
        qtbot.waitUntil(lambda bars=bars: not bars.is_filling)
        assert bars._shares()[0] == pytest.approx(0.9 if is_answer else 0.9 * mass, rel=1e-3)
        assert ("Answer:" in bars.accessibleDescription()) == is_answer
        assert one.questions.cards[0].warning.text().startswith("" if is_answer else "No answer. Of all probability, ")


@pytest.mark.parametrize("size", [(636, 560), (1000, 700), (420, 560)])
def test_decide_stays_in_its_place(
    qtbot: QtBot, opened: Callable[..., DecisionsController], size: tuple[int, int]
) -> None:
    page = opened(model=SKILLS)
    one = page.page.one
    page.page.resize(*size)

    def place() -> QPoint:
        return one.decide.mapTo(page.page, QPoint(0, 0))

    qtbot.waitUntil(one.decide.isEnabled)
    assert one.load.isVisible()
    qtbot.waitUntil(lambda: page.page.rect().contains(place()))
    before = place()
    assert before.y() > size[1] - 80
    one.load.click()
    qtbot.waitUntil(lambda: one.message.text() == "")
    assert place() == before
    one.column.state.setPlainText("Is this mail urgent? " * 3)
    assert one.message.isVisible()
    one.decide.click()
    idle(qtbot, page)
    qtbot.waitUntil(one.decide.isVisible)
    assert place() == before


def test_words_that_the_small_model_never_learned_are_named(opened: Callable[..., DecisionsController]) -> None:
    one = opened(model=DECIDER).page.one
    assert one.message.text() == ""
    one.column.state.setPlainText("The number is 58. The mail is from Zoe.")
    assert one.message.text() == ("This small model never learned the words “mail”, “from”: it can only guess.")
    own = (QuestionDraft.from_question(YesNo("Is it urgent?", name="urgent")),)
    one.questions.show_sheet(replace(one.questions.sheet, questions=own))
    one.column.state.setPlainText("The number is 58.")
    assert one.message.text().startswith("This small model never learned the words “it”, “urgent”:")


def test_a_model_that_cannot_decide_is_named(
    qtbot: QtBot, fake: FarEngine, opened: Callable[..., DecisionsController]
) -> None:
    fake.able = type(fake.able)()
    page = opened()
    one = page.page.one
    assert not one.decide.isEnabled()
    assert one.load.isVisible()
    qtbot.keyClick(one.column.state, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert not page.is_busy


def test_a_model_elsewhere_tells_probabilities_and_no_canvas(
    qtbot: QtBot, opened: Callable[..., DecisionsController]
) -> None:
    page = opened()
    one = page.page.one
    before = one.strip.teaching.text()
    one.decide.click()
    assert one.stop.isVisible()
    idle(qtbot, page)
    for card in one.questions.cards:
        assert card.bars.answer is not None
        assert card.bars.answer.best == 0
    assert one.strip.teaching.isVisible()
    assert one.strip.teaching.text() != before
    assert not one.strip.inspect.isVisible()


def test_what_is_missing_is_named_before_anything_runs(opened: Callable[..., DecisionsController]) -> None:
    page = opened()
    one = page.page.one
    one.column.state.setPlainText("  ")
    one.decide.click()
    assert one.column.problem.isVisible()
    assert page.page.focusWidget() is one.column.state
    one.column.state.setPlainText("Tom is here.")
    assert not one.column.problem.isVisible()
    one.questions.adders[0].click()
    one.decide.click()
    assert one.questions.cards[-1].editor is not None
    while one.questions.cards:
        one.questions.cards[0].remove_asked.emit()
    assert not one.decide.isEnabled()
    assert not page.is_busy


def test_a_decision_that_fails_or_is_stopped_says_so(
    qtbot: QtBot, fake: FarEngine, opened: Callable[..., DecisionsController]
) -> None:
    page = opened()
    one = page.page.one
    fake.problem = "the server has gone"
    one.decide.click()
    idle(qtbot, page)
    assert one.fault.text() == "the server has gone"
    fake.problem, fake.hold = "", True
    with qtbot.waitSignal(page.decider.changed):  # it has begun
        one.decide.click()
    assert one.fault.text() == ""
    assert page.reason_to_wait() != ""
    page.stop()
    fake.gate.release(10)
    idle(qtbot, page)
    assert one.fault.text() != ""
    assert one.questions.cards[0].bars.answer is None


def test_questions_are_remembered_between_starts(opened: Callable[..., DecisionsController]) -> None:
    page = opened()
    one = page.page.one
    one.column.examples.activated.emit(len(samples()) - 1)
    one.column.repeats.setValue(5)
    one.questions.adders[2].click()  # not complete
    one.column.state.setPlainText("The mail of this morning.")
    page.store.remember()
    folder = page._context.folders.data
    assert read_sheet(folder) == (one.questions.sheet, "The mail of this morning.")
    again = opened(model=None)
    assert again.page.one.questions.sheet == one.questions.sheet
    assert again.page.one.column.state.toPlainText() == "The mail of this morning."
    assert again.page.one.column.repeats.value() == 5
    (folder / NAME).write_text("[1, 2]", encoding="utf-8")
    assert read_sheet(folder) is None


def test_an_example_never_costs_one_s_own_questions(opened: Callable[..., DecisionsController]) -> None:
    page, done = opened(), list[tuple[str, str, Callable[[], object]]]()
    page._context.done.connect(lambda *said: done.append(said))
    page.page.one.column.examples.activated.emit(1)  # in place of the first example
    assert done == []
    own = (QuestionDraft.from_question(YesNo("Is this mail urgent?", name="urgent")),)
    page.page.one.questions.show_sheet(replace(page.page.one.questions.sheet, questions=own))
    page.page.one.column.state.setPlainText("Please call back today.")
    page.page.one.column.examples.activated.emit(0)
    assert page.page.one.questions.sheet.questions != own
    [(said, title, _)] = done
    assert (said, title) == ("An example has replaced your questions.", "Restore mine")
    done[0][2]()
    assert page.page.one.questions.sheet.questions == own
    assert page.page.one.column.state.toPlainText() == "Please call back today."
    assert [card.draft for card in page.page.one.questions.cards] == list(own)
    assert len(done) == 1
    page.page.one.column.examples.activated.emit(1)
    assert len(done) == 2  # what was put back is one's own
    page.page.one.column.examples.activated.emit(0)
    assert len(done) == 2


def test_what_an_example_replaced_stays_among_the_examples(opened: Callable[..., DecisionsController]) -> None:
    page = opened()
    one, examples = page.page.one, page.page.one.column.examples
    titles = [examples.itemText(place) for place in range(examples.count())]
    own = (QuestionDraft.from_question(YesNo("Is this mail urgent?", name="urgent")),)
    one.questions.show_sheet(replace(one.questions.sheet, questions=own))
    one.column.state.setPlainText("Please call back today.")
    examples.activated.emit(1)
    examples.activated.emit(0)
    assert [examples.itemText(place) for place in range(examples.count())] == [*titles, "Your own text and questions"]
    examples.activated.emit(examples.count() - 1)  # long after the message has gone
    assert one.questions.sheet.questions == own
    assert one.column.state.toPlainText() == "Please call back today."

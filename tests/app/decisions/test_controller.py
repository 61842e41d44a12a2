"""The page with a stand-in engine: refusals, failures, its memory, and a model without a canvas."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.decisions.controller import NAME, DecisionsController, read_questions
from app.state.decisions.drafts import QuestionDraft, samples
from engine import GAPS
from engine.tasks.decisions.questions import Option, YesNo
from tests.app.canvas.pointing import shown
from tests.app.decisions.far_engine import FarEngine
from tests.app.inspector.made_up import Recorded
from tests.engine.task_runs import decided, decision_header

Open = Callable[..., AppContext]
Opened = Callable[..., DecisionsController]


@pytest.fixture
def fake() -> FarEngine:
    """Takes the place of the usual stand-in."""
    return FarEngine()


@pytest.fixture
def opened(qtbot: QtBot, open_context: Open) -> Opened:
    """Opens the page, with a model or without."""

    def open_page(**options: str | None) -> DecisionsController:
        made = DecisionsController(open_context(**options))
        shown(qtbot, made.page, 1000, 700)
        return made

    return open_page


def idle(qtbot: QtBot, page: DecisionsController) -> None:
    qtbot.waitUntil(lambda: not page.is_busy)


@pytest.mark.parametrize(("model", "said"), [(None, "model"), (GAPS, "was not trained to decide")])
def test_a_trained_model_is_offered_and_another_small_one_may_be_asked(
    qtbot: QtBot, opened: Opened, model: str | None, said: str
) -> None:
    one = opened(model=model).page
    qtbot.waitUntil(lambda: one.decide.isEnabled() == (model is not None))
    assert said in one.message.text()
    one.load.click()
    qtbot.waitUntil(lambda: one.message.text() == "" and one.decide.isEnabled())
    assert not one.load.isVisible()


def test_a_model_that_cannot_decide_is_named(qtbot: QtBot, fake: FarEngine, opened: Opened) -> None:
    fake.able = type(fake.able)()
    page = opened()
    one = page.page
    assert not one.decide.isEnabled()
    assert one.load.isVisible()
    qtbot.keyClick(one.column.state, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert not page.is_busy


def test_a_model_elsewhere_reports_probabilities_and_no_canvas(qtbot: QtBot, opened: Opened) -> None:
    page = opened()
    one = page.page
    before = one.strip.teaching.text()
    one.decide.click()
    assert one.stop.isVisible()
    idle(qtbot, page)
    for card in one.questions.cards:
        assert card.answer.best == 0
    assert one.strip.teaching.isVisible()
    assert one.strip.teaching.text() != before
    assert not one.strip.inspect.isVisible()


def test_what_is_missing_is_named_before_anything_runs(opened: Opened) -> None:
    page = opened()
    one = page.page
    one.column.state.setPlainText("  ")
    one.decide.click()
    assert one.column.problem.isVisible()
    assert one.focusWidget() is one.column.state
    one.column.state.setPlainText("Tom is here.")
    assert not one.column.problem.isVisible()
    one.questions.adders[0].click()
    one.decide.click()
    assert one.questions.cards[-1].editor is not None
    while one.questions.cards:
        one.questions.cards[0].remove_asked.emit()
    assert not one.decide.isEnabled()
    assert not page.is_busy


def test_a_decision_that_fails_or_is_stopped_says_so(qtbot: QtBot, fake: FarEngine, opened: Opened) -> None:
    page = opened()
    one = page.page
    fake.problem = "the server has gone"
    one.decide.click()
    idle(qtbot, page)
    assert one.fault.text() == "the server has gone"
    fake.problem, fake.hold = "", True
    with qtbot.waitSignal(page._context.backend.pacing.delivered):  # it has begun
        one.decide.click()
    assert one.fault.text() == ""
    assert page.reason_to_wait() != ""
    page.stop()
    fake.gate.release(10)
    idle(qtbot, page)
    assert one.fault.text() != ""
    assert one.questions.cards[0].answer is None


def test_questions_are_remembered_between_starts(opened: Opened) -> None:
    page = opened()
    one = page.page
    one.column.examples.activated.emit(len(samples()) - 1)
    one.column.joint.setChecked(False)
    one.questions.adders[2].click()  # not complete
    one.column.state.setPlainText("The mail of this morning.")
    page.remember()
    again = opened(model=None).page
    assert again.questions.drafts == one.questions.drafts
    assert again.column.state.toPlainText() == "The mail of this morning."
    assert not again.column.joint.isChecked()
    folder = page._context.folders.data
    question = {"kind": "choice", "name": "q1", "instructions": "Who?", "options": [["Ann", "tall"], ["Ben", ""]]}
    old = {"questions": [question], "instructions": "Be brief.", "joint": True, "repeats": 5, "temperature": 1.7}
    (folder / NAME).write_text(json.dumps(old | {"state": "A text."}), encoding="utf-8")  # of an earlier version
    drafts = (QuestionDraft("choice", "Who?", (Option("Ann", "tall"), Option("Ben"))),)
    assert read_questions(folder) == (drafts, "A text.", True)
    for raw in ("[1, 2]", '{"questions": [{"kind": "x"}], "state": "", "joint": true}', '{"questions": 3}'):
        (folder / NAME).write_text(raw, encoding="utf-8")
        assert read_questions(folder) is None


def test_an_example_never_costs_one_s_own_questions(opened: Opened) -> None:
    page, done = opened(), list[tuple[str, str, Callable[[], object]]]()
    one = page.page
    page._context.done.connect(lambda *said: done.append(said))
    one.column.examples.activated.emit(1)  # in place of the first example
    assert done == []
    own = (QuestionDraft.from_question(YesNo("Is this mail urgent?")),)
    one.questions.show_drafts(own)
    one.column.state.setPlainText("Please call back today.")
    one.column.examples.activated.emit(0)
    assert one.questions.drafts != own
    [(said, title, put_back)] = done
    assert (said, title) == ("An example has replaced your questions.", "Restore mine")
    put_back()
    assert one.questions.drafts == own
    assert one.column.state.toPlainText() == "Please call back today."


def test_a_read_is_opened_in_the_inspector_at_its_step(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    page, places, head = opened(), list[int](), decision_header()
    monkeypatch.setattr(page._context.navigator, "inspect", lambda _trace, place: places.append(place), raising=False)
    trace = Recorded(list(decided(head)), header=head)
    for read in (2, 0):
        page.page.strip.inspect_asked.emit((trace, read))
    assert places == [5, 1]  # behind the noise of each read

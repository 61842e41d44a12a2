"""The chat page with a stand-in engine and no window: asking, failing, suggestions, what the model is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QEnterEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QDialog, QLabel, QPlainTextEdit, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController
from app.design.notice import DetailsDialog
from app.session.model_slot import ModelChoice
from app.settings.values import DecodingChoice
from app.state.chat.rewriting import revision
from engine import BASE, GAPS, MINI, SUDOKU, WEDLM, SafelightError
from engine.catalog import SMALL
from engine.service import PromptRead
from engine.tasks import skills, sudoku
from engine.text.outline import Hole
from tests.app.chat.asking import answered, enter

Open = Callable[..., ChatController]


def test_an_answer_is_the_canvas_and_settles_into_text(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    chat = open_chat()
    fake.hold, fake.blocks = True, 2
    enter(qtbot, chat, "hello")
    assert chat.page.composer.text == ""
    view = chat.page.turns[0].answer
    answer = chat._session.chat.turns[0].answer
    fake.gate.release(4)
    qtbot.waitUntil(lambda: answer.stats.total_steps == 4)
    assert len(view.canvases) == 2
    assert [canvas.isVisible() for canvas in view.canvases] == [False, True]
    assert view.text.text() == answer.settled[0].text
    assert view.stop.isVisible()
    assert view.status.line.text().startswith("Block 2, step 1, up to 48 · 1 of 8 sure")
    assert chat.page.composer.hint.text() == "The answer is being written; Esc stops it"
    fake.gate.release(10)
    answered(qtbot, chat)
    assert view.text.isVisible()
    assert view.text.text() == answer.text != ""
    assert not any(canvas.isVisible() for canvas in view.canvases)
    assert not view.stop.isVisible()
    assert view.status.line.text().startswith("Done in 6 steps over 2 blocks")
    view.canvas_toggle.click()
    assert all(canvas.isVisible() for canvas in view.canvases)
    assert [bool(canvas.grid.legend) for canvas in view.canvases] == [False, True]
    assert view.canvases[0].block is not None
    assert not view.text.isVisible()
    view.canvas_toggle.click()
    assert view.text.isVisible()
    view.copy.click()
    assert QGuiApplication.clipboard().text() == answer.text


@pytest.mark.parametrize(
    ("model", "decoders", "expected"),
    [
        ("other", ("block_diffusion",), "A block begins as noise"),
        (WEDLM, ("autoregressive", "causal_parallel"), "Masks ahead of the text"),
    ],
)
def test_an_introduction_says_how_the_decoder_writes(
    open_chat: Open, fake: Any, model: str, decoders: tuple[str, ...], expected: str
) -> None:
    fake.name, fake.decoders = model, decoders
    chat = open_chat(model)
    introduction = chat.page.welcome.introduction
    assert isinstance(introduction, QLabel)
    assert introduction.text().startswith(expected)
    if len(decoders) > 1:
        chat._context.values.decoding = DecodingChoice(decoders[0])
        chat._context.settings_changed.emit()
        assert introduction.text().startswith("One token at a time")


def test_a_computed_answer_that_is_being_shown_is_skipped_by_stop_enter_and_send(
    qtbot: QtBot, open_chat: Open, fake: Any
) -> None:
    chat = open_chat()
    composer, pacing = chat.page.composer, chat._context.backend.pacing
    fake.hold = True
    pacing.set_speed(0.001)
    enter(qtbot, chat, "hello")
    view = chat.page.turns[0].answer
    qtbot.waitUntil(view.stop.isVisible)
    assert view.stop.text() == "■ Stop"
    enter(qtbot, chat, "and then")  # while it is written, which keeps the draft
    assert (len(chat._session.chat.turns), composer.text) == (1, "and then")
    fake.hold = False
    fake.gate.release(10)
    for number, send in enumerate((lambda: qtbot.keyClick(composer.edit, Qt.Key.Key_Return), composer.send.click), 1):
        qtbot.waitUntil(lambda: pacing.is_computed)
        answer = chat._session.chat.turns[-1].answer
        assert answer.status != "done"
        composer.set_text("and then")
        send()
        assert answer.status == "done"
        assert answer.text
        assert (len(chat._session.chat.turns), composer.text) == (number + 1, "")
    qtbot.waitUntil(lambda: pacing.is_computed)
    stop = chat.page.turns[-1].answer.stop
    assert (stop.text(), stop.accessibleName()) == ("Skip", "Skip to the end")
    assert composer.hint.text() == "An answer is still being shown; Esc skips to its end"
    stop.click()
    assert answered(qtbot, chat, 3)[2].status == "done"


def test_the_reading_of_a_long_prompt_is_a_bar_in_tokens(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    chat = open_chat()
    fake.hold = True
    fake.before = [PromptRead("", read, 4724) for read in (0, 512, 1024)]
    enter(qtbot, chat, "hello")
    view = chat.page.turns[0].answer
    assert view.status.line.text() == "Reading the prompt"
    assert not view.status.bar.isVisible()
    for read in ("0", "512", "1,024"):
        fake.before_gate.release()
        said = f"Reading the prompt, {read} of 4,724 tokens"
        qtbot.waitUntil(lambda said=said: view.status.line.text() == said)
        assert view.status.bar.isVisible()
        assert (view.status.bar.value(), view.status.bar.maximum()) == (int(read.replace(",", "")), 4724)
    fake.before_gate.release()
    qtbot.waitUntil(lambda: view.status.line.text() == "Starting from noise")
    assert not view.status.bar.isVisible()
    view.stop.click()
    assert view.status.line.text() == "Stopping after the pass that runs"
    fake.gate.release(10)
    answered(qtbot, chat)
    assert view.remarks.text() == "Stopped before anything was written."


def test_a_prompt_that_does_not_fit_comes_back_unless_another_draft_is_there(qtbot: QtBot, open_chat: Open) -> None:
    chat = open_chat()
    composer = chat.page.composer
    enter(qtbot, chat, "x" * 401)
    qtbot.waitUntil(lambda: composer.hint.text().endswith("Shorten the prompt"))
    assert not chat.page.notice.isVisible()  # it is said once
    assert composer.text == "x" * 401
    enter(qtbot, chat, "x" * 402)
    composer.set_text("the next one")
    qtbot.waitUntil(chat.page.notice.isVisible)
    assert chat.page.notice.message.text().endswith("Shorten the prompt")
    assert composer.text == "the next one"


def test_a_failed_run_is_reported_with_details_and_the_app_goes_on(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    chat = open_chat()
    fake.fail_at = 1
    enter(qtbot, chat, "hello")
    answered(qtbot, chat)
    notice = chat.page.notice
    assert "the graphics card fell out" in notice.message.text()
    notice.details.click()
    dialog = chat.page.findChild(DetailsDialog)
    assert isinstance(dialog, QDialog)
    assert "Traceback" in dialog.findChild(QPlainTextEdit).toPlainText()
    for button in dialog.findChildren(QPushButton):
        if button.text() == "Copy":
            button.click()
    assert "RuntimeError" in QGuiApplication.clipboard().text()
    dialog.accept()
    assert chat.page.turns[0].answer.canvases[0].isVisible()
    fake.fail_at = None
    enter(qtbot, chat, "again")
    assert answered(qtbot, chat, 2)[1].status == "done"
    assert not notice.isVisible()


def test_suggestions_are_sent_and_fit_the_model(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    chat = open_chat()
    chips = chat.page.welcome.suggestions.chips
    assert len(chips) == len(skills.suggestions())
    chat.page.composer.edit.setPlainText("half a thought")
    chips[0].click()
    answered(qtbot, chat)
    assert fake.prompts[-1][-1]["content"] == skills.suggestions()[0]
    assert chat.page.composer.text == "half a thought"
    chat._context.load(SUDOKU)
    qtbot.waitUntil(lambda: chat._context.model is not None)
    assert len(chat.page.welcome.suggestions.prompts) == 3
    assert sudoku.givens(sudoku.parse(chat.page.welcome.suggestions.prompts[0])) == 34


def test_the_loaded_model_answers_again_whoever_wrote_the_answer(qtbot: QtBot, open_chat: Open) -> None:
    chat = open_chat()
    context = chat._context
    enter(qtbot, chat, "hello")
    answered(qtbot, chat)
    [turn] = chat._session.chat.turns
    context.load(BASE)
    qtbot.waitUntil(lambda: context.slot.choice == ModelChoice(BASE))
    chat.commands.again(turn)
    answered(qtbot, chat)
    assert [answer.model for answer in turn.answers.items] == [MINI, BASE]
    chat.commands.ask_other(turn, SMALL)
    for chosen in (SUDOKU, SMALL):  # another is chosen meanwhile: what was asked for lapses
        context.load(chosen)
        qtbot.waitUntil(lambda chosen=chosen: context.slot.choice == ModelChoice(chosen))
    assert len(turn.answers) == 2


def test_actions_of_a_message_are_seen_under_the_pointer_or_the_keyboard(qtbot: QtBot, open_chat: Open) -> None:
    chat = open_chat()
    for count, prompt in enumerate(("one", "two"), 1):
        enter(qtbot, chat, prompt)
        answered(qtbot, chat, count)
    first, last = chat.page.turns
    assert (first.prompt.acts.is_seen, first.answer.acts.is_seen, last.answer.acts.is_seen) == (False, False, True)
    here = QPointF(1, 1)
    QApplication.sendEvent(first.prompt, QEnterEvent(here, here, here))
    assert (first.prompt.acts.is_seen, first.answer.acts.is_seen) == (True, False)
    QApplication.sendEvent(first.prompt, QEvent(QEvent.Type.Leave))
    assert not first.prompt.acts.is_seen
    chat.widget.activateWindow()
    first.answer.copy.setFocus()
    assert first.answer.acts.is_seen


# ---------------------------------------------------------------- texts with gaps, and changed answers


GAPPED = "The sea is [[…]] today."


@pytest.fixture
def gaps(open_chat: Open) -> ChatController:
    return open_chat(GAPS)


def test_what_is_above_the_line_is_the_prompt_and_files_go_with_it(
    qtbot: QtBot, gaps: ChatController, fake: Any
) -> None:
    gaps.page.composer.attach_text("The file says blue.")
    enter(qtbot, gaps, f"About the weather.\n---\n{GAPPED}")
    answered(qtbot, gaps)
    request = fake.requests[-1]
    content = request.messages[-1]["content"]
    assert "The file says blue." in content
    assert content.endswith("About the weather.")
    assert request.outline == ("The sea is ", Hole(), " today.")
    assert request.config.max_new_tokens % 8 == 0
    assert not request.think


def test_too_long_a_gap_is_said_and_the_draft_stays(qtbot: QtBot, gaps: ChatController, fake: Any) -> None:
    enter(qtbot, gaps, "A [[9999 words]] gap.")
    composer = gaps.page.composer
    assert composer.hint.text().startswith("a gap has 1 to 2,048 words or tokens")
    assert composer.text == "A [[9999 words]] gap."
    assert not fake.requests
    assert not gaps._context.session.chat.turns


def test_a_model_that_writes_word_by_word_gets_the_text_as_it_is(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    fake.decoders = ("autoregressive",)
    gaps = open_chat(GAPS)
    gaps.page.composer.set_text(GAPPED)
    assert "gap" not in gaps.page.composer.hint.text()
    enter(qtbot, gaps, GAPPED)
    answered(qtbot, gaps)
    assert fake.requests[-1].outline == ()
    assert fake.requests[-1].messages[-1]["content"] == GAPPED


def test_again_writes_a_changed_answer_in_the_same_manner(qtbot: QtBot, gaps: ChatController, fake: Any) -> None:
    enter(qtbot, gaps, "Hello.")
    answered(qtbot, gaps)
    session = gaps._context.session
    (turn,) = session.chat.turns
    first = turn.answer.text
    gaps.commands.rewrite(turn, revision(first, 0.5))
    answered(qtbot, gaps)
    assert fake.requests[-1].outline == (first,)
    gaps.commands.again(turn)
    answered(qtbot, gaps)
    assert (fake.requests[-1].outline, fake.requests[-1].noise) == ((first,), 0.5)
    assert fake.seeds[-1] != fake.seeds[-2]
    session.choose_answer(turn, 0)
    gaps.commands.again(turn)
    answered(qtbot, gaps)
    assert fake.requests[-1].outline == ()


def test_a_persons_own_version_needs_an_idle_conversation(qtbot: QtBot, gaps: ChatController, fake: Any) -> None:
    enter(qtbot, gaps, "Hello.")
    answered(qtbot, gaps)
    session = gaps._context.session
    (turn,) = session.chat.turns
    fake.hold = True
    gaps.commands.again(turn)
    qtbot.waitUntil(lambda: session.active is not None)
    with pytest.raises(SafelightError, match="being written"):
        session.put(turn, "mine")
    fake.hold = False
    fake.gate.release(10)
    answered(qtbot, gaps)
    session.put(turn, "mine")
    assert [answer.text for answer in turn.answers.items][-1] == "mine"
    assert not turn.answer.has_trace

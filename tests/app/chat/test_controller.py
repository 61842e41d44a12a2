"""The chat page with a stand-in engine and no window: asking, failing, suggestions, what the model is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QLabel, QPlainTextEdit, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController, build
from app.chat.page import ChatPage
from app.context import AppContext
from app.design.notice import DetailsDialog
from app.session.session import Session
from app.settings.values import DecodingChoice
from app.state.run.pace import FULL_SPEED
from engine import MINI, SUDOKU, WEDLM
from engine.service import PromptRead
from engine.tasks import skills, sudoku


class Opened(NamedTuple):
    """The chat page by itself."""

    context: AppContext
    controller: ChatController

    @property
    def page(self) -> ChatPage:
        return self.controller.page

    @property
    def session(self) -> Session:
        return self.context.session


Open = Callable[..., Opened]


@pytest.fixture
def open_chat(qtbot: QtBot, open_context: Callable[..., AppContext]) -> Open:
    def open_one(model: str | None = MINI) -> Opened:
        context = open_context(model)
        controller = build(context)
        context.said.connect(controller.notice.show_message)
        qtbot.addWidget(controller.widget)
        controller.widget.resize(1000, 700)
        controller.widget.show()
        return Opened(context, controller)

    return open_one


def idle(qtbot: QtBot, chat: Opened) -> None:
    qtbot.waitUntil(lambda: chat.session.active is None)


def ask(qtbot: QtBot, chat: Opened, text: str) -> None:
    chat.page.composer.edit.setPlainText(text)
    qtbot.keyClick(chat.page.composer.edit, Qt.Key.Key_Return)


def test_an_answer_is_the_canvas_and_settles_into_text(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    chat = open_chat()
    fake.hold, fake.blocks = True, 2
    ask(qtbot, chat, "hello")
    assert chat.page.composer.text == ""
    view = chat.page.turns[0].answer
    answer = chat.session.chat.turns[0].answer
    fake.gate.release(4)
    qtbot.waitUntil(lambda: answer.stats.total_steps == 4)
    assert len(view.canvases) == 2
    assert [canvas.isVisible() for canvas in view.canvases] == [False, True]
    assert view.text.text() == answer.settled[0].text
    assert view.stop.isVisible()
    assert view.status.line.text().startswith("Block 2, step 1, up to 48 · 1 of 8 sure")
    assert chat.page.composer.hint.text() == "The answer is being written; Esc stops it"
    fake.gate.release(10)
    idle(qtbot, chat)
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
        chat.context.values.decoding = DecodingChoice(decoders[0])
        chat.context.settings_changed.emit()
        assert introduction.text().startswith("One token at a time")


def test_stop_is_skip_while_a_computed_answer_is_shown(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    chat = open_chat()
    pacing = chat.context.backend.pacing
    fake.hold = True
    pacing.set_speed(0.001)
    ask(qtbot, chat, "hello")
    view = chat.page.turns[0].answer
    qtbot.waitUntil(view.stop.isVisible)
    assert view.stop.text() == "■ Stop"
    fake.gate.release(10)
    qtbot.waitUntil(lambda: pacing.is_computed)
    assert (view.stop.text(), view.stop.accessibleName()) == ("Skip", "Skip to the end")
    assert chat.page.composer.hint.text() == "An answer is still being shown; Esc skips to its end"
    view.stop.click()
    idle(qtbot, chat)
    answer = chat.session.chat.turns[0].answer
    assert (answer.status, view.text.text()) == ("done", answer.text)


def test_enter_skips_to_the_end_of_what_is_only_being_shown_and_sends(qtbot: QtBot, open_chat: Open) -> None:
    chat = open_chat()
    pacing = chat.context.backend.pacing
    pacing.set_speed(0.001)
    ask(qtbot, chat, "hello")
    for number, send in enumerate((lambda: ask(qtbot, chat, "and then"), chat.page.composer.send.click), 1):
        qtbot.waitUntil(lambda: pacing.is_computed)
        answer = chat.session.chat.turns[-1].answer
        assert answer.status != "done"
        chat.page.composer.set_text("and then")
        send()
        assert answer.status == "done"
        assert answer.text
        assert (len(chat.session.chat.turns), chat.page.composer.text) == (number + 1, "")
    pacing.set_speed(FULL_SPEED)
    idle(qtbot, chat)


def test_while_an_answer_is_being_written_enter_keeps_the_draft(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    chat = open_chat()
    fake.hold = True
    ask(qtbot, chat, "hello")
    qtbot.waitUntil(lambda: chat.session.active is not None and not chat.context.backend.pacing.is_computed)
    ask(qtbot, chat, "and then")
    assert (len(chat.session.chat.turns), chat.page.composer.text) == (1, "and then")
    fake.gate.release(10)
    idle(qtbot, chat)


def test_the_reading_of_a_long_prompt_is_a_bar_in_tokens(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    chat = open_chat()
    fake.hold = True
    fake.before = [PromptRead("", read, 4724) for read in (0, 512, 1024)]
    ask(qtbot, chat, "hello")
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
    idle(qtbot, chat)
    assert view.remarks.text() == "Stopped before anything was written."


def test_an_earlier_answer_can_be_repeated_and_begins_a_branch(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    chat = open_chat()
    for text in ("one", "two"):
        ask(qtbot, chat, text)
        idle(qtbot, chat)
    asked = chat.session.chat
    assert [message["content"] for message in fake.prompts[-1]] == ["one", asked.turns[0].answer.text, "two"]
    first = chat.page.turns[0].answer
    first.again.click()
    idle(qtbot, chat)
    assert [message["content"] for message in fake.prompts[-1]] == ["one"]
    assert [view.turn.prompt for view in chat.page.turns] == ["one"]
    first.versions.before.click()
    assert [view.turn.prompt for view in chat.page.turns] == ["one", "two"]


def test_an_empty_prompt_gets_a_hint(qtbot: QtBot, open_chat: Open) -> None:
    chat = open_chat()
    ask(qtbot, chat, "  ")
    assert chat.page.composer.hint.text() == "Write something first."
    assert chat.session.chat.turns == []
    chat.page.composer.edit.setPlainText("x")
    assert "Enter sends" in chat.page.composer.hint.text()


def test_a_prompt_that_does_not_fit_stays_in_the_composer(qtbot: QtBot, open_chat: Open) -> None:
    chat = open_chat()
    composer = chat.page.composer
    ask(qtbot, chat, "x" * 401)
    qtbot.waitUntil(lambda: composer.hint.text().endswith("Shorten the prompt"))
    assert not chat.page.notice.isVisible()  # it is said once
    assert composer.text == "x" * 401


def test_a_refused_prompt_takes_no_other_draft_away(qtbot: QtBot, open_chat: Open) -> None:
    chat = open_chat()
    ask(qtbot, chat, "x" * 401)
    chat.page.composer.edit.setPlainText("the next one")
    qtbot.waitUntil(chat.page.notice.isVisible)
    assert chat.page.notice.message.text().endswith("Shorten the prompt")
    assert chat.page.composer.text == "the next one"


def test_a_failed_run_is_reported_with_details_and_the_app_goes_on(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    chat = open_chat()
    fake.fail_at = 1
    ask(qtbot, chat, "hello")
    idle(qtbot, chat)
    notice = chat.page.notice
    assert notice.message.text() == (
        "Something went wrong: the graphics card fell out. Try again; the details may say why."
    )
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
    ask(qtbot, chat, "again")
    idle(qtbot, chat)
    assert chat.session.chat.turns[1].answer.status == "done"
    assert not notice.isVisible()


def test_suggestions_are_sent_and_fit_the_model(qtbot: QtBot, open_chat: Open, fake: Any) -> None:
    chat = open_chat()
    chips = chat.page.welcome.suggestions.chips
    assert len(chips) == len(skills.suggestions())
    chat.page.composer.edit.setPlainText("half a thought")
    chips[0].click()
    idle(qtbot, chat)
    assert fake.prompts[-1][-1]["content"] == skills.suggestions()[0]
    assert chat.page.composer.text == "half a thought"
    chat.context.load(SUDOKU)
    qtbot.waitUntil(lambda: chat.context.model is not None)
    assert len(chat.page.welcome.suggestions.prompts) == 3
    assert sudoku.givens(sudoku.parse(chat.page.welcome.suggestions.prompts[0])) == 34

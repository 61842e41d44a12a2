"""The conversation's page: what is shown, editing, copies, faults. The engine is a stand-in."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Iterable
from typing import Any
from unittest.mock import Mock

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QGuiApplication, QKeySequence, QShortcut, QTextCursor
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.chat.commands import ViewOptions
from app.chat.markdown_view.widget import MarkdownView
from app.chat.messages.prompt_editor import PromptEditor
from app.chat.page import ChatPage
from app.design import motion
from app.design.text_field import LONGEST_LINE
from app.state.chat.attachment import Attachment
from app.state.chat.conversation import Answer, ChatState, Turn
from app.state.run.stats import RunFigures
from engine import Event, GenerationConfig, Reply
from engine.catalog import Traits
from engine.service import LoadedModel
from tests.app.chat.settled import copy_buttons
from tests.written import written_run

OPTIONS = ViewOptions(calm=True)


def decode(ids: Iterable[int]) -> Reply:
    return Reply("".join(chr(ord("a") + int(i) % 26) for i in ids), "")


def loaded(fake: Any) -> LoadedModel:
    known = {
        "path_or_id": "safelight-mini",
        "title": "Safelight Mini",
        "name": "safelight-mini",
        "traits": Traits(),
        "defaults": fake.defaults,
        "vocab_size": 64,
        "parts": (),
        "piece": lambda token: chr(ord("a") + token % 26),
        "is_special": lambda token: token == 1,
        "decode": decode,
    }
    return LoadedModel(**{field.name: known.get(field.name) for field in dataclasses.fields(LoadedModel)})  # type: ignore[arg-type]


def ended(text: str = "An answer.", **changes: object) -> Answer:
    """An answer as the library gives it."""
    answer = Answer("Safelight Mini", 3, GenerationConfig())
    answer.text, answer.status, answer.kept = text, "done", RunFigures(12, 1, 0, 1.5, 9.0, 40.0)
    for name, value in changes.items():
        setattr(answer, name, value)
    return answer


def talk(count: int, seed: int = 0) -> ChatState:
    """A conversation of answers of all lengths."""
    rng, chat = random.Random(seed), ChatState()
    for number in range(count):
        chat.ask(f"Prompt {number}", ended("\n\n".join([f"Answer {number}.", *["word " * 30] * rng.randint(0, 9)])))
    return chat


@pytest.fixture
def page(qtbot: QtBot) -> ChatPage:
    motion.set_reduced(True)
    made = ChatPage(OPTIONS, Mock(others=lambda _turn: (), can_change=lambda _turn: True))
    qtbot.addWidget(made)
    made.resize(760, 700)
    made.show()
    made.activateWindow()
    return made


def events(fake: Any, seed: int = 5) -> list[Event]:
    return list(fake.generate(None, [1, 2], fake.defaults, seed, threading.Event()))


def develop(page: ChatPage, chat: ChatState, fake: Any, *, until: int | None = None) -> None:
    """Run the active answer, all of it or its first events."""
    for event in events(fake)[:until]:
        chat.fold(event, decode)
        if chat.active is not None:
            page.refresh()
        else:
            page.settle()


def test_growing_text_is_shown_as_text_with_a_caret(page: ChatPage, fake: Any) -> None:
    chat = ChatState()
    answer = Answer("Word by word", 3, GenerationConfig(decoder="autoregressive", canvas_length=8))
    chat.ask("hello", answer)
    page.show_chat(chat, loaded(fake))
    view, before = page.turns[0].answer, ""
    for event in written_run(list(range(4, 30)) * 4, 8, ahead=1):
        chat.fold(event, decode)
        if chat.active is None:
            break
        page.refresh()
        shown = view.text.text()
        assert shown == decode(answer.tokens).text
        assert shown.startswith(before)
        assert not any(canvas.isVisible() for canvas in view.canvases)
        assert view.text.has_caret or not shown
        before = shown
    page.settle()
    assert len(before) == 26 * 4
    assert view.text.text() == before
    assert not view.text.has_caret
    view.canvas_toggle.click()
    assert view.canvases[0].isVisible()


def test_text_that_grew_until_it_was_stopped_needs_no_canvas(page: ChatPage, fake: Any) -> None:
    chat = ChatState()
    answer = Answer("Word by word", 3, GenerationConfig(decoder="causal_parallel", canvas_length=8))
    chat.ask("hello", answer)
    page.show_chat(chat, loaded(fake))
    events = written_run(list(range(4, 30)), 8, ahead=3, stop=4)
    for event in events[:-1]:
        chat.fold(event, decode)
        if answer.canvas.current is not None:
            page.refresh()
    view = page.turns[0].answer
    assert 0 < len(view.text.text()) < answer.canvas.written + 1  # what stands behind a gap is not shown
    answer.stop(decode)
    page.settle()
    assert view.text.text() == answer.text != ""
    assert not any(canvas.isVisible() for canvas in view.canvases)
    assert view.remarks.text() == "Stopped before the end."


def test_a_stored_conversation_needs_no_model(page: ChatPage) -> None:
    page.show_chat(talk(3), None)
    assert [view.prompt.prose.text() for view in page.turns] == ["Prompt 0", "Prompt 1", "Prompt 2"]
    answer = page.turns[0].answer
    assert answer.text.isVisibleTo(page)
    assert answer.text.text().startswith("Answer 0.")
    answer.details.click()
    assert answer.status.line.text() == "12 steps, up to 48 · 1.5 s"
    assert not answer.status.details.isVisibleTo(answer)
    answer.status.more.click()
    assert answer.status.details.isVisibleTo(answer)
    assert answer.status.details.text() == "9.0 tokens per pass · 40 tokens a second · Seed 3"
    assert answer.speaker.text() == "Safelight Mini"
    assert answer.canvases == []
    assert not answer.canvas_toggle.isVisible()
    assert not page.welcome.isVisible()
    page.show_chat(ChatState(), None)
    assert page.welcome.isVisible()
    assert page.turns == []


def test_a_stopped_answer_keeps_its_text_and_the_canvas_that_was_running(page: ChatPage, fake: Any) -> None:
    chat = talk(0)
    fake.blocks = 2
    turn = chat.ask("Go", Answer("Skills", 5, fake.defaults))
    page.show_chat(chat, loaded(fake))
    develop(page, chat, fake, until=8)
    turn.answer.stop(decode)
    page.settle()
    view = page.turns[-1].answer
    assert [canvas.isVisible() for canvas in view.canvases] == [False, True]
    assert view.text.text() == turn.answer.settled[0].text
    view.canvas_toggle.click()
    assert not any(canvas.isVisible() for canvas in view.canvases)
    assert view.text.text() == turn.answer.text
    view.canvas_toggle.click()
    assert [canvas.isVisible() for canvas in view.canvases] == [False, True]


def open_editor(page: ChatPage, turns: int = 1) -> tuple[PromptEditor, list[str]]:
    """Edits the first prompt; returns the editor, and the texts that it sends from then on."""
    page.show_chat(talk(turns), None)
    sent: list[str] = []
    page.commands.edit = lambda _turn, text: sent.append(text)
    page.turns[0].prompt.edit.click()
    editor = page.turns[0].prompt.editor
    assert editor is not None
    return editor, sent


def test_a_prompt_is_edited_in_place(qtbot: QtBot, page: ChatPage) -> None:
    editor, sent = open_editor(page, 2)
    prompt, turn = page.turns[0].prompt, page.turns[0].turn
    assert editor.field.toPlainText() == "Prompt 0"
    assert not prompt.prose.isVisible()
    editor.field.clear()
    qtbot.keyClick(editor.field, Qt.Key.Key_Return)
    assert not editor.send.isEnabled()
    assert sent == []
    editor.field.setPlainText("Prompt 0")
    editor.field.moveCursor(QTextCursor.MoveOperation.End)
    qtbot.keyClicks(editor.field, "x")
    qtbot.keyClick(editor.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(editor.field, "y")
    qtbot.keyClick(editor.field, Qt.Key.Key_Return)
    assert sent == ["Prompt 0x\ny"]
    assert prompt.editor is editor  # no answer has begun: what was written stays
    edited = page._chat.edit(turn, "Prompt 0x\ny", ended())
    page.show_chat(page._chat, None)
    assert [view.turn for view in page.turns] == [edited]
    assert page.turns[0].prompt.editor is None


def test_an_edited_prompt_stays_until_it_can_be_sent(qtbot: QtBot, page: ChatPage) -> None:
    editor, sent = open_editor(page)
    page.set_state(can_repeat=False)  # as while a model loads
    qtbot.keyClicks(editor.field, "x")
    qtbot.keyClick(editor.field, Qt.Key.Key_Return)
    assert sent == []
    assert page.turns[0].prompt.editor is editor
    assert not editor.send.isEnabled()
    assert "stays here" in editor.hint.text()
    page.set_state(can_repeat=True)
    assert "another version" in editor.hint.text()
    qtbot.keyClick(editor.field, Qt.Key.Key_Return)
    assert sent == ["Prompt 0x"]


def test_what_is_too_long_for_the_editor_is_refused_in_words(page: ChatPage) -> None:
    chat = talk(2)
    chat.turns[0].prompt = "x" * (LONGEST_LINE + 1)
    page.show_chat(chat, None)
    long, short = (turn.prompt for turn in page.turns)
    assert not long.edit.isEnabled()
    assert "Copy it" in long.edit.toolTip()
    short.edit.click()
    assert short.editor is not None
    data = QMimeData()
    data.setText("x" * (LONGEST_LINE + 1))
    short.editor.field.insertFromMimeData(data)
    assert short.editor.field.toPlainText() == "Prompt 1"
    assert "too long" in short.editor.hint.text()
    short.editor.field.insertPlainText("x")
    assert "another version" in short.editor.hint.text()


def test_escape_and_an_unchanged_text_leave_the_prompt_as_it_was_and_stop_nothing(qtbot: QtBot, page: ChatPage) -> None:
    stopped: list[bool] = []
    QShortcut(QKeySequence("Escape"), page).activated.connect(lambda: stopped.append(True))
    editor, sent = open_editor(page)
    prompt = page.turns[0].prompt
    qtbot.keyClicks(editor.field, "changed")
    qtbot.keyClick(editor.field, Qt.Key.Key_Escape)
    assert prompt.editor is None
    assert prompt.prose.text() == "Prompt 0"
    prompt.edit.click()
    assert prompt.editor is not None
    qtbot.keyClick(prompt.editor.field, Qt.Key.Key_Return)  # unchanged
    assert prompt.editor is None
    assert sent == stopped == []
    qtbot.waitUntil(prompt.edit.hasFocus)


def test_copy_and_delete(page: ChatPage) -> None:
    chat = ChatState()
    turn = chat.ask("Why *so*?", ended("**Because** of\n\n- this"))
    page.show_chat(chat, None)
    view = page.turns[0]
    view.answer.copy.click()
    assert QGuiApplication.clipboard().text() == "**Because** of\n\n- this"
    view.prompt.copy.click()
    assert QGuiApplication.clipboard().text() == "Why *so*?"
    deleted: list[object] = []
    page.commands.delete = deleted.append
    page.commands.delete_answer = lambda turn, index: deleted.append((turn, index))
    view.prompt.delete.click()
    assert not view.answer.delete.isVisible()  # the only version is deleted with its prompt
    chat.ask_again(turn, ended("Two"))
    page.show_chat(chat, None)
    page.turns[0].answer.delete.click()
    assert deleted == [turn, (turn, 1)]


def test_thinking_is_folded(qtbot: QtBot, page: ChatPage) -> None:
    chat = ChatState()
    chat.ask("Why?", ended("So.", thinking="<b>one</b> two **three**"))
    page.show_chat(chat, None)
    thinking = page.turns[0].answer.thinking
    assert thinking.fold.text() == "Thinking, 3 words ▸"
    assert not thinking.prose.isVisible()
    thinking.fold.setFocus()
    qtbot.keyClick(thinking.fold, Qt.Key.Key_Space)
    assert thinking.prose.isVisible()
    assert thinking.prose.sections[0].document.toPlainText() == "<b>one</b> two **three**"
    assert thinking.fold.accessibleName() == "Fold the thinking. Thinking, 3 words"
    thinking.fold.click()
    assert not thinking.prose.isVisible()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ended("  "), "The model ended without writing anything. Regenerate to try another seed."),
        (ended("", status="failed", error="The memory is full."), "The memory is full."),
        (ended("half", status="stopped"), "Stopped before the end."),
        (ended("", status="stopped"), "Stopped before anything was written."),
    ],
    ids=["empty", "failed", "stopped", "stopped at once"],
)
def test_what_went_wrong_is_said_with_a_retry(page: ChatPage, answer: Answer, said: str) -> None:
    chat = ChatState()
    turn = chat.ask("Go", answer)
    page.show_chat(chat, None)
    view = page.turns[0].answer
    assert view.remarks.isVisible()
    assert view.remarks.text() == said
    assert not view.again.isVisible()  # one button for it is enough
    asked: list[Turn] = []
    page.commands.again = asked.append
    view.retry.click()
    assert asked == [turn]


def test_files_of_a_prompt_are_chips_that_unfold(page: ChatPage) -> None:
    chat = ChatState()
    chat.ask("Read", ended(), (Attachment("notes.txt", "first\n```\nsecond"), Attachment("long.py", "x" * 3000)))
    page.show_chat(chat, None)
    prompt = page.turns[0].prompt
    assert [chip.text() for chip in prompt.chips] == ["notes.txt · 16 B ▸", "long.py · 3 KB ▸"]
    assert not prompt.files[0].isVisible()
    prompt.chips[0].click()
    assert prompt.files[0].isVisible()
    copy_buttons(prompt.files[0])[0].click()
    assert QGuiApplication.clipboard().text() == "first\n```\nsecond"
    prompt.chips[0].click()
    assert not prompt.files[0].isVisible()


def test_hostile_text_stays_text_everywhere(page: ChatPage) -> None:
    nasty = "<img src=x> <for example> \u202etxt [a](javascript:x) 😀 שלום\n\n" + "x" * 30_000
    chat = ChatState()
    chat.ask(nasty, ended(nasty, thinking=nasty, model_title="<b>Model</b>"), (Attachment("<i>.py", nasty),))
    page.show_chat(chat, None)
    view = page.turns[0]
    view.answer.thinking.fold.click()
    view.prompt.chips[0].click()
    assert not page.grab().isNull()
    for prose in view.findChildren(MarkdownView):
        if prose.isVisibleTo(page):
            shown = "".join(piece.document.toPlainText() for piece in prose.sections)
            assert "<for example>" in shown
            assert "\u202e" not in shown
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in page.findChildren(QLabel))


def test_another_conversation_opens_at_its_end(page: ChatPage) -> None:
    page.show_chat(talk(30), None)
    page.scroller.verticalScrollBar().setValue(0)
    other = talk(30, seed=1)
    page.show_chat(other, None)
    bar = page.scroller.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    assert page.turns[-1].turn is other.turns[-1]


def test_canvases_keep_the_model_that_wrote_them(page: ChatPage, fake: Any) -> None:
    chat = ChatState()
    chat.ask("Go", Answer("Skills", 5, fake.defaults))
    first = loaded(fake)
    page.show_chat(chat, first)
    develop(page, chat, fake)
    page.show_chat(talk(1), None)
    page.show_chat(chat, dataclasses.replace(first, piece=lambda _token: "?"))
    view = page.turns[0].answer
    view.canvas_toggle.click()
    assert "'?'" not in view.canvases[0].cell_text(0)[0]

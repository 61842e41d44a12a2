"""Pictures in the chat: attached, sent, kept through edits, and what is said where they cannot be seen."""

from __future__ import annotations

import dataclasses
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.chat.composer.composer import Composer
from app.chat.controller import ChatController, build
from app.context import AppContext
from app.library import pictures
from app.pictures import bar
from app.pictures.bar import PictureThumb, PictureWindow
from app.session.model_slot import Ready
from app.state.chat.prompts import PromptCount
from engine.pictures import Picture
from engine.text.message import image_digests, image_of
from tests.engine.drawn import picture
from tests.fake_engine import FakeEngine

RED, BLUE = picture("red", 60, 20), picture("blue", 20, 60)


@pytest.fixture
def composer(qtbot: QtBot) -> Composer:
    made = Composer()
    qtbot.addWidget(made)
    return made


@pytest.fixture
def red(tmp_path: Path) -> str:
    path = tmp_path / "red.png"
    path.write_bytes(RED.data)
    return str(path)


@pytest.fixture
def chat(qtbot: QtBot, fake: FakeEngine, open_context: Callable[..., AppContext]) -> ChatController:
    fake.able = dataclasses.replace(fake.able, images=True)
    made = build(open_context())
    qtbot.addWidget(made.page)
    made.page.resize(700, 700)
    with qtbot.waitExposed(made.page):
        made.page.show()
    return made


def put(qtbot: QtBot, composer: Composer, *paths: str) -> None:
    composer.accept_files(paths)
    qtbot.waitUntil(lambda: not composer.pictures.is_reading)


def sent(chat: ChatController, qtbot: QtBot, act: Callable[[], object]) -> tuple[Picture, ...]:
    """Returns what the model is shown next."""
    act()
    qtbot.waitUntil(lambda: chat._session.active is None)
    run = chat._session.chat.turns[-1].answer.trace
    assert run is not None
    return run.pictures


def ask(chat: ChatController, qtbot: QtBot, prompt: str) -> tuple[Picture, ...]:
    """Sends a prompt, and returns the pictures that the model is shown."""
    chat.page.composer.set_text(prompt)
    return sent(chat, qtbot, chat.page.composer.send.click)


def colour_of(widget: QWidget) -> str:
    """Returns the colour of its middle."""
    return widget.grab().toImage().pixelColor(widget.rect().center()).name()


def forget_pictures(chat: ChatController) -> None:
    """Empties every memory, so that pictures are read from the disk."""
    store = chat._session.library.pictures
    store._in_use.clear()
    store._recent.clear()
    chat._pictures._small.clear()


def thumbs(chat: ChatController) -> list[PictureThumb]:
    return chat.page.scroller.findChildren(PictureThumb)


def test_files_are_distinguished_and_others_named(composer: Composer, tmp_path: Path, qtbot: QtBot) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "a.png").write_bytes(RED.data[:70])
    (tmp_path / "b.png").write_bytes(RED.data)
    (tmp_path / "c.png").write_bytes(RED.data[:60])
    put(qtbot, composer, *(str(tmp_path / name) for name in ("a.txt", "b.png", "a.png", "c.png")))
    assert [file.name for file in composer.attachments] == ["a.txt"]
    assert [shown.name for shown in composer.pictures.pictures] == ["b.png"]
    assert "a.png" in composer.hint.text()
    assert "1 more file" in composer.hint.text()


def test_what_is_still_being_read_does_not_join_what_replaces_it(
    composer: Composer, red: str, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, go_on = bar.read_picture, threading.Event()

    def slowly(source: bar.Pasted) -> tuple[str, Picture]:
        assert source != red or go_on.wait(20)
        return read(source)

    monkeypatch.setattr(bar, "read_picture", slowly)
    (tmp_path / "blue.png").write_bytes(BLUE.data)
    composer.accept_files([red])
    composer.clear()
    assert "Reading" not in composer.hint.text()
    composer.accept_files([str(tmp_path / "blue.png")])
    go_on.set()
    qtbot.waitUntil(lambda: not composer.pictures.is_reading)
    assert [shown.name for shown in composer.pictures.pictures] == ["blue.png"]


def test_a_picture_is_pasted_and_removed(composer: Composer, qtbot: QtBot) -> None:
    data = QMimeData()
    data.setImageData(QImage(8, 4, QImage.Format.Format_RGB32))
    assert composer.edit.canInsertFromMimeData(data)
    composer.edit.insertFromMimeData(data)
    composer.pictures.set_cost(lambda width, height: width * height)
    qtbot.waitUntil(lambda: bool(composer.pictures.chips))
    (chip,) = composer.pictures.chips
    assert chip.facts.text() == "8 × 4 · 32 tokens"
    assert chip.remove.accessibleName() == "Remove Picture"
    assert chip.thumb.accessibleName() == "Picture, 8 × 4 pixels"
    qtbot.waitUntil(lambda: not chip.thumb._loading.is_busy)
    plain = chip.thumb.grab().toImage()
    chip.thumb.setProperty("ring", True)  # the keyboard is there
    assert chip.thumb.grab().toImage().pixelColor(1, 1) != plain.pixelColor(1, 1)
    chip.remove.click()
    assert composer.pictures.pictures == ()
    assert composer.pictures.isHidden()


def test_twice_the_same_and_too_many_are_refused(composer: Composer, red: str, tmp_path: Path, qtbot: QtBot) -> None:
    put(qtbot, composer, red, red)
    assert "red.png is attached already" in composer.hint.text()
    for number in range(11):
        (tmp_path / f"{number}.png").write_bytes(picture("white", 10 + number, 10).data)
    put(qtbot, composer, *(str(tmp_path / f"{number}.png") for number in range(11)))
    assert len(composer.pictures.chips) == 10
    assert "At most 10 pictures" in composer.hint.text()


def test_a_prompt_waits_for_its_pictures(
    chat: ChatController, red: str, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    composer, sent = chat.page.composer, []
    monkeypatch.setattr(chat.sending, "send", sent.append)
    composer.set_text("What is it?")
    composer.accept_files([red])
    composer.send.click()
    assert not sent
    assert "still being read" in composer.hint.text()
    qtbot.waitUntil(lambda: not composer.pictures.is_reading)
    composer.send.click()
    assert sent == ["What is it?"]


def test_the_model_is_shown_what_was_dropped(chat: ChatController, fake: FakeEngine, red: str, qtbot: QtBot) -> None:
    composer = chat.page.composer
    put(qtbot, composer, red)
    composer.send.click()
    assert composer.hint.text() == "Write what to do with the picture."
    composer.set_text("What is it?")
    assert composer.pictures.chips[0].facts.text() == "60 × 20 · 254 tokens"
    qtbot.waitUntil(lambda: composer.meter.fit is not None and composer.meter.fit.tokens == 3 + 254)
    assert sent(chat, qtbot, composer.send.click) == (RED,)
    assert composer.pictures.pictures == ()
    assert fake.configs[-1].image_tokens == 280
    turn = chat._session.chat.turns[-1]
    assert sent(chat, qtbot, lambda: chat.commands.again(turn)) == (RED,)
    assert sent(chat, qtbot, lambda: chat.commands.edit(turn, "And now?")) == (RED,)
    assert ask(chat, qtbot, "Go on.") == (RED,)
    first, last = chat._session.chat.turns
    assert [len(one.pictures) for one in (first, last)] == [1, 0]


def test_a_question_to_a_model_that_reads_no_history_takes_the_last_picture_along(
    chat: ChatController, red: str, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = chat._context.model
    assert model is not None
    blind = dataclasses.replace(model, reads_history=False, reads_system=False)
    monkeypatch.setattr(chat._context.slot, "state", Ready(blind))
    monkeypatch.setattr(pictures, "RECENT_BYTES", 1)  # so that they are read from the disk again
    put(qtbot, chat.page.composer, red)
    assert ask(chat, qtbot, "What is it?") == (RED,)
    assert [image_digests([message]) for message in chat._pending()] == [(), (), (RED.digest,)]
    assert ask(chat, qtbot, "And now?") == (RED,)
    qtbot.waitUntil(lambda: len(thumbs(chat)) == 2)
    (tmp_path / "blue.png").write_bytes(BLUE.data)
    put(qtbot, chat.page.composer, str(tmp_path / "blue.png"))
    for question in ("And this?", "And again?"):
        assert ask(chat, qtbot, question) == (BLUE,)
    assert [len(turn.pictures) for turn in chat._session.chat.turns] == [1, 1, 1, 1]


def test_a_message_shows_its_picture_and_opens_it(chat: ChatController, red: str, qtbot: QtBot) -> None:
    put(qtbot, chat.page.composer, red)
    ask(chat, qtbot, "What is it?")
    (thumb,) = thumbs(chat)
    qtbot.waitUntil(lambda: thumb.image is not None)
    assert thumb.accessibleName() == "Picture red.png, 60 × 20 pixels"
    assert thumb.image is not None
    assert colour_of(thumb) == "#ff0000"
    qtbot.keyClick(thumb, Qt.Key.Key_Space)
    (window,) = (one for one in QApplication.topLevelWidgets() if isinstance(one, PictureWindow))
    qtbot.waitUntil(lambda: not window._loading.is_busy)
    assert colour_of(window) == "#ff0000"
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not window.isVisible())
    qtbot.keyClick(thumb, Qt.Key.Key_Space)
    chat.page.hide()  # as another page is shown
    qtbot.waitUntil(lambda: not any(isinstance(one, PictureWindow) for one in QApplication.topLevelWidgets()))
    gc.collect()


def test_a_missing_picture_is_said_and_left_out(chat: ChatController, red: str, qtbot: QtBot) -> None:
    put(qtbot, chat.page.composer, red)
    ask(chat, qtbot, "What is it?")
    conversation, library = chat._session.conversation, chat._session.library
    assert conversation is not None
    assert library.folder is not None
    (library.folder / "pictures" / RED.digest).write_bytes(BLUE.data)
    forget_pictures(chat)
    chat._session.open_new()
    chat._session.open(conversation)
    qtbot.waitUntil(lambda: bool(thumbs(chat)) and thumbs(chat)[-1].is_missing)
    assert "missing or damaged" in thumbs(chat)[-1].accessibleName()
    assert ask(chat, qtbot, "Go on.") == ()


def test_a_model_that_cannot_see_says_so_and_the_draft_stays(
    qtbot: QtBot, fake: FakeEngine, open_context: Callable[..., AppContext], red: str
) -> None:
    chat = build(open_context())
    qtbot.addWidget(chat.page)
    composer = chat.page.composer
    put(qtbot, composer, red)
    assert "only reads text" in composer.hint.text()
    composer.set_text("What is it?")
    composer.send.click()
    assert "only reads text" in composer.hint.text()
    assert (composer.text, len(composer.pictures.chips)) == ("What is it?", 1)
    assert fake.configs == []
    assert chat._session.chat.turns == []


def test_pictures_count() -> None:
    def words(messages: object) -> int:
        assert isinstance(messages, list)
        assert all("images" not in message for message in messages)
        return sum(len(message["content"].split()) for message in messages)

    messages = [{"role": "user", "content": "one two", "images": (image_of(RED), image_of(BLUE))}]
    assert PromptCount(words, lambda width, height, budget: width + height + budget, 70)(messages) == 2 + 2 * 150
    assert PromptCount(words, None, 70)(messages) == 2

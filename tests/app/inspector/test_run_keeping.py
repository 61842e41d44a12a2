"""Runs of all pages are renamed and deleted under All runs, and those of deleted chats are not shown there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QInputDialog, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.inspector.controller import InspectorController, build
from app.inspector.run_cards import RunCard
from app.library import NewMessage
from engine.trace import Parent, name_of
from tests.app.canvas.pointing import shown
from tests.engine.traces import header, made_up, write


@pytest.fixture
def context(open_context: Callable[..., AppContext]) -> AppContext:
    made = open_context()
    made.folders.traces.mkdir(parents=True)
    return made


@pytest.fixture
def said(context: AppContext) -> list[str]:
    found: list[str] = []
    context.said.connect(lambda text, _details: found.append(text))
    return found


def run_of(context: AppContext, *, of: str = "") -> str:
    head = header(parent=Parent(of, 0, 0) if of else None)
    write(context.folders.traces / f"{head.id}.sltrace", made_up(), head)
    return head.id


def opened(qtbot: QtBot, context: AppContext, count: int) -> InspectorController:
    made = build(context)
    shown(qtbot, made.widget, 1200, 800)
    made.enter()
    qtbot.waitUntil(lambda: not made._catalog._looking.is_busy and len(own(made)) == count)
    return made


def own(inspector: InspectorController) -> list[RunCard]:
    return [card for card in inspector.page.welcome.runs.cards if card.offer.is_own]


def answer(inspector: InspectorController, button: str) -> str:
    """Presses a button of the open question; returns what it asked."""
    question = inspector.keeping.question
    assert isinstance(question, QMessageBox)
    next(made for made in question.buttons() if made.text() == button).click()
    return question.text()


def test_a_run_is_named_and_the_name_is_shown_everywhere(qtbot: QtBot, context: AppContext) -> None:
    run = run_of(context)
    inspector = opened(qtbot, context, 1)
    QTest.keyClick(own(inspector)[0], Qt.Key.Key_F2)
    question = inspector.keeping.question
    assert isinstance(question, QInputDialog)
    question.setTextValue(" the one with\tthe knight ")
    question.accept()
    qtbot.waitUntil(lambda: own(inspector)[0].offer.title == "the one with the knight")
    own(inspector)[0].click()
    assert inspector.page.title.toolTip() == "the one with the knight"
    path = context.folders.traces / f"{run}.sltrace"
    inspector.page.close_button.click()
    inspector.page.welcome.runs.rename_asked.emit(str(path))
    question = inspector.keeping.question
    assert isinstance(question, QInputDialog)
    assert question.textValue() == "the one with the knight"
    question.setTextValue("")
    question.accept()
    qtbot.waitUntil(lambda: own(inspector)[0].offer.title == "prompt")
    assert name_of(path) == ""


def test_one_run_or_all_are_deleted_after_a_question(qtbot: QtBot, context: AppContext) -> None:
    runs = {run_of(context) for _ in range(3)}
    inspector = opened(qtbot, context, 3)
    first = own(inspector)[0]
    first.setFocus()
    QTest.keyClick(first, Qt.Key.Key_Delete)
    assert "can no longer show how they were written" in answer(inspector, "Keep")
    assert {path.stem for path in context.folders.traces.iterdir()} == runs
    QTest.keyClick(first, Qt.Key.Key_Delete)
    gone = Path(first.offer.key).stem
    answer(inspector, "Delete")
    qtbot.waitUntil(lambda: len(own(inspector)) == 2)
    assert {path.stem for path in context.folders.traces.iterdir()} == runs - {gone}
    assert {Path(card.offer.key).stem for card in own(inspector)} == runs - {gone}
    (context.folders.traces / "notes.txt").write_text("mine")
    size = round(sum(path.stat().st_size for path in context.folders.traces.glob("*.sltrace")) / 1000)
    buttons, before = inspector.page.welcome.runs.findChildren(QPushButton), inspector.keeping.question
    next(made for made in buttons if made.text() == "Delete all…").click()
    qtbot.waitUntil(lambda: inspector.keeping.question is not before)
    assert answer(inspector, "Delete").startswith(f"Delete all 2 recorded runs ({size} kB)?")
    qtbot.waitUntil(lambda: own(inspector) == [])
    assert [path.name for path in context.folders.traces.iterdir()] == ["notes.txt"]


def test_a_held_run_is_kept_with_one_sentence(
    qtbot: QtBot, context: AppContext, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run_of(context) for _ in range(3)]
    inspector = opened(qtbot, context, 3)
    replace, held = Path.replace, set(runs[:2])

    def refused(path: Path, target: Path) -> Path:
        if path.stem in held:
            raise PermissionError(13, "it is being used by another process")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refused)
    inspector.page.welcome.runs.delete_all_asked.emit()
    qtbot.waitUntil(lambda: inspector.keeping.question is not None)
    answer(inspector, "Delete")
    qtbot.waitUntil(lambda: len(own(inspector)) == 2)
    assert said == ["2 runs are open or still running, so they were kept. Try again later."]
    inspector.page.welcome.runs.delete_asked.emit(own(inspector)[0].offer.key)
    answer(inspector, "Delete")
    qtbot.waitUntil(lambda: len(said) == 2)
    assert "cannot be deleted (it is being used by another process), so nothing was. Close the run" in said[1]


def test_the_runs_of_a_deleted_chat_are_not_shown_until_it_is_restored(qtbot: QtBot, context: AppContext) -> None:
    run, other = run_of(context), run_of(context)
    fork = run_of(context, of=run)
    run_of(context, of=fork)
    library = context.library
    chat = library.create(title="t")
    prompt = library.add(chat, NewMessage(None, "user", "?"))
    library.add(chat, NewMessage(prompt, "assistant", "!", settings=json.dumps({"trace": run})))
    library.delete(chat)
    inspector = opened(qtbot, context, 1)
    assert Path(own(inspector)[0].offer.key).stem == other
    library.restore(chat)
    inspector.enter()
    qtbot.waitUntil(lambda: len(own(inspector)) == 4)

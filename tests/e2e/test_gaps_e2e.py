"""Gaps, changed parts and revisions in the chat, with the real embedded model and the keyboard alone."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from pytestqt.qtbot import QtBot

from app.chat.messages.answer import AnswerView
from app.state.run.canvas import CellState
from app.window.main_window import MainWindow
from engine import GAPS
from tests.e2e.asking import ask, focused, idle

CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
Key = Qt.Key


def type_prompt(qtbot: QtBot, window: MainWindow, text: str) -> None:
    qtbot.keyClick(window, Key.Key_L, CONTROL)
    window.pages.chat().page.composer.set_text(text)


def last(qtbot: QtBot, window: MainWindow) -> AnswerView:
    """Returns the view of the last answer, once it is there."""
    idle(qtbot, window)
    return window.pages.chat().page.turns[-1].answer


def fill_a_gap_twice(qtbot: QtBot, window: MainWindow) -> None:
    composer = window.pages.chat().page.composer
    type_prompt(qtbot, window, "Monday, , Wednesday, Thursday.")
    composer.edit.moveCursor(QTextCursor.MoveOperation.Start)
    for _ in "Monday, ":
        qtbot.keyClick(focused(), Key.Key_Right)
    qtbot.keyClick(window, Key.Key_G, CONTROL)
    assert composer.text == "Monday, [[…]], Wednesday, Thursday."
    assert composer.hint.text() == "Enter fills in the gap"
    formats = composer.edit.document().firstBlock().layout().formats()
    assert [(one.start, one.length) for one in formats] == [(8, 5)]
    qtbot.keyClick(focused(), Key.Key_Return)
    answer = last(qtbot, window)
    text = answer.turn.answer.text
    assert text.startswith("Monday, ")
    assert text.endswith(", Wednesday, Thursday.")
    block = answer.turn.answer.canvas.blocks[0]
    states = block.states(calm=True)
    assert (states[:8] == CellState.GIVEN).all()
    assert (states[8:24] == CellState.SETTLED).all()
    assert not answer.remarks.isVisible()  # no program knows what belongs into a gap
    qtbot.keyClick(window, Key.Key_R, CONTROL)
    idle(qtbot, window)
    assert len(answer.turn.answers) == 2
    assert answer.turn.answer.text.startswith("Monday, ")
    assert focused() is composer.edit
    for key, keys, shown in ((Key.Key_Left, None, 0), (Key.Key_Right, None, 1), (Key.Key_Z, CONTROL, 0)):
        qtbot.keyClick(composer.edit, key, keys or Qt.KeyboardModifier.NoModifier)  # the field is empty
        assert answer.turn.answers.shown == shown
    qtbot.keyClick(composer.edit, Key.Key_Z, CONTROL | SHIFT)
    answer.text.setFocus()
    qtbot.keyClick(answer.text, Key.Key_Left)
    assert (answer.turn.answers.shown, answer.text.text()) == (0, text)
    qtbot.keyClick(answer.text, Key.Key_Right)
    qtbot.keyClick(answer.text, Key.Key_Z, CONTROL)
    assert answer.turn.answers.shown == 0


def write_a_selected_part_again(qtbot: QtBot, window: MainWindow) -> None:
    ask(qtbot, window, "Sort 9 4 7 2 6.")
    answer = last(qtbot, window)
    assert answer.turn.answer.text == "2 4 6 7 9"
    window.context.values.overrides["max_denoising_steps"] = 8
    window.context.apply_values()
    answer.text.setFocus()
    for key in (Key.Key_End, Key.Key_Left, Key.Key_Left):
        qtbot.keyClick(answer.text, key, SHIFT)
    assert answer.text.selected_text() == "2 4 6 7"
    qtbot.keyClick(answer.text, Key.Key_Return)
    panel = answer.changing.panel
    assert panel is not None
    assert focused() is panel.wish
    assert panel.about.toolTip() == "Change “2 4 6 7”"
    qtbot.keyClick(panel.wish, Key.Key_Escape)
    assert not panel.isVisible()
    qtbot.keyClick(answer.text, Key.Key_Return)
    qtbot.keyClick(panel.wish, Key.Key_Return)
    idle(qtbot, window)
    assert len(answer.turn.answers) == 2
    assert answer.turn.answer.text.endswith(" 9")
    assert answer.isAncestorOf(focused())
    qtbot.keyClick(focused(), Key.Key_Z, CONTROL)
    assert answer.text.text() == "2 4 6 7 9"
    qtbot.keyClick(focused(), Key.Key_Z, CONTROL | SHIFT)
    assert answer.turn.answers.shown == 1
    del window.context.values.overrides["max_denoising_steps"]
    window.context.apply_values()


def revise_a_draft_and_reject_a_change(qtbot: QtBot, window: MainWindow) -> None:
    type_prompt(qtbot, window, "Sort 9 4 7 2 6.\n---\n2 4 6 9 7")
    qtbot.keyClick(window, Key.Key_Return, CONTROL | SHIFT)
    answer = last(qtbot, window)
    assert answer.turn.answer.text == "2 4 6 7 9"
    qtbot.waitUntil(lambda: answer.changing.is_reviewing)
    review = answer.changing.review
    assert review is not None
    assert not answer.text.isVisible()
    assert review.said.text().startswith("2 changes, 2 accepted.")
    review.changes.setFocus()
    qtbot.keyClick(review.changes, Key.Key_Right)
    qtbot.keyClick(review.changes, Key.Key_Space)
    assert "becomes “”, rejected" in review.changes.accessibleDescription()
    qtbot.keyClick(review.use, Key.Key_Space)
    assert [one.text for one in answer.turn.answers.items] == ["2 4 6 7 9", "2 4 6 7 9 7"]
    assert answer.text.text() == "2 4 6 7 9 7"
    session = window.context.session
    conversation = session.conversation
    assert conversation is not None
    session.open_new()
    session.open(conversation)
    stored = session.chat.turns[-1]
    assert [one.text for one in stored.answers.items] == ["2 4 6 7 9", "2 4 6 7 9 7"]
    assert stored.answers.shown == 1


def test_a_gap_a_part_and_a_draft_are_written_again(qtbot: QtBot, window_with: Callable[[str], MainWindow]) -> None:
    window = window_with(GAPS)
    window.activateWindow()
    for walk in (fill_a_gap_twice, write_a_selected_part_again, revise_a_draft_and_reject_a_change):
        window.conversations.open_new()
        walk(qtbot, window)

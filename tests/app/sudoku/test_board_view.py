"""The board widget: keys, clipboard, painting, motion, and its words for assistive technology."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QAbstractAnimation, QCoreApplication, QEvent, Qt
from PySide6.QtGui import QAccessible, QGuiApplication, QKeyEvent

from app.design import motion, themes
from app.design.tokens import color
from app.state.sudoku.board import EMPTY, Board
from app.state.sudoku.solve_frame import SolveFrame, frame
from app.sudoku.board.view import BoardView
from tests.app.canvas.pointing import THEMES, middle, pixels
from tests.app.sudoku.scripted import NOISE, PUZZLE, SOLVED, Script, piece

BOARD = Board(PUZZLE)
NAME, DESCRIPTION = QAccessible.Text.Name, QAccessible.Text.Description
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def view(qtbot) -> BoardView:
    made = BoardView()
    qtbot.addWidget(made)
    motion.set_reduced(True)
    made.resize(480, 480)
    made.grab()  # it learns its size when it is first seen
    return made


def shown(script: Script) -> SolveFrame:
    return frame(PUZZLE, script.block, piece)


def test_digits_arrows_clearing_and_undo(view, qtbot):
    boards: list[Board] = []
    view.changed.connect(boards.append)
    for key in (Qt.Key.Key_5, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_7):
        qtbot.keyClick(view, key)
    assert (view.board[0], view.board[10], view.selected) == ("5", "7", 10)
    qtbot.keyClick(view, Qt.Key.Key_3)  # overwrites
    assert view.board[10] == "3"
    for key in (Qt.Key.Key_Backspace, Qt.Key.Key_Delete, Qt.Key.Key_0, Qt.Key.Key_Period):
        view.put("8")
        qtbot.keyClick(view, key)
        assert view.board[10] == "0"
    assert len(boards) == 3 + 2 * 4
    assert boards[-1] == view.board
    view.put("8")
    for key, modifiers, digit in (
        (Qt.Key.Key_Z, CONTROL, "0"),
        (Qt.Key.Key_Z, CONTROL | SHIFT, "8"),
        (Qt.Key.Key_Z, CONTROL, "0"),
        (Qt.Key.Key_Y, CONTROL, "8"),
        (Qt.Key.Key_Y, CONTROL, "8"),
    ):
        qtbot.keyClick(view, key, modifiers)
        assert view.board[10] == digit


def test_a_digit_counts_as_it_is_written_whatever_its_key():
    view = BoardView()
    for text, modifiers in (("4", SHIFT), ("\u0664", Qt.KeyboardModifier.NoModifier)):  # a French and an Arabic 4
        event = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Apostrophe, modifiers, text)
        QCoreApplication.sendEvent(view, event)
        assert view.board[0] == "4"
        view.clear_all()


def test_shortcuts_of_the_window_wait_only_for_keys_the_board_takes(view):
    def taken(key: Qt.Key, modifiers: Qt.KeyboardModifier, text: str = "") -> bool:
        event = QKeyEvent(QEvent.Type.ShortcutOverride, key, modifiers, text)
        event.ignore()
        QCoreApplication.sendEvent(view, event)
        return event.isAccepted()

    none = Qt.KeyboardModifier.NoModifier
    assert taken(Qt.Key.Key_Z, CONTROL)
    assert taken(Qt.Key.Key_5, none, "5")
    assert taken(Qt.Key.Key_Left, none)
    assert not taken(Qt.Key.Key_3, CONTROL, "3")
    assert not taken(Qt.Key.Key_Space, none, " ")
    view.set_frame(shown(Script()))
    assert not taken(Qt.Key.Key_Z, CONTROL)
    assert not taken(Qt.Key.Key_5, none, "5")
    assert taken(Qt.Key.Key_C, CONTROL)


def test_copy_and_paste_by_their_keys(view, qtbot):
    clipboard = QGuiApplication.clipboard()
    clipboard.setText(BOARD.text())
    qtbot.keyClick(view, Qt.Key.Key_V, CONTROL)
    assert view.board == BOARD
    clipboard.clear()
    qtbot.keyClick(view, Qt.Key.Key_C, CONTROL)
    assert clipboard.text() == BOARD.text()
    qtbot.keyClick(view, Qt.Key.Key_Z, CONTROL)
    assert view.board == EMPTY
    with qtbot.waitSignal(view.refused) as refused:
        view.paste_text("no puzzle")
    assert "no puzzle" in refused.args[0]
    assert view.board == EMPTY


def test_a_run_is_read_only_and_the_puzzle_waits_underneath(view, qtbot):
    view.set_puzzle(BOARD)
    view.set_frame(shown(Script().step(SOLVED, {2}, {})))
    assert view.is_read_only
    for key in (Qt.Key.Key_9, Qt.Key.Key_Delete):
        qtbot.keyClick(view, key)
    qtbot.keyClick(view, Qt.Key.Key_Z, CONTROL)
    view.paste_text(SOLVED)
    assert view.board == BOARD
    qtbot.keyClick(view, Qt.Key.Key_Right)
    assert view.selected == 1  # one may still look around
    view.set_frame(None)
    assert not view.is_read_only
    qtbot.keyClick(view, Qt.Key.Key_9)
    assert view.board[1] == "9"
    changes: list[Board] = []
    view.changed.connect(changes.append)
    view.set_frame(shown(Script()))
    for _ in range(2):
        view.set_puzzle(BOARD)  # another one puts the run away
    assert view.frame is None
    assert changes == [BOARD]
    view.undo()
    assert view.board[1] == "9"


@THEMES
def test_conflicts_are_joined_by_a_line(view, theme):
    themes.publish(theme)
    view.set_puzzle(Board("5" + "0" * 7 + "5" + "0" * 72))
    between = middle(view, 4)
    with_line = pixels(view).pixelColor(between)
    view.set_puzzle(Board("5" + "0" * 7 + "6" + "0" * 72))
    assert pixels(view).pixelColor(between) == color(theme.surface_sunken)
    assert with_line != color(theme.surface_sunken)


def fading(view: BoardView) -> bool:
    return view.findChild(QAbstractAnimation).state() == QAbstractAnimation.State.Running


def test_a_step_tints_what_it_locked_or_took_back_and_ends(view, qtbot):
    motion.set_reduced(False)
    script = Script().step(SOLVED, {2, 3}, {})
    first = shown(script)
    view.set_frame(first)
    assert not fading(view)  # nothing was there before it
    second = shown(script.step(SOLVED, {2}, {}))
    view.set_frame(second)
    assert fading(view)
    tinted = pixels(view)
    qtbot.waitUntil(lambda: not fading(view))
    assert pixels(view) != tinted
    view.set_frame(first)  # going back shows no step
    assert not fading(view)


def test_cells_of_a_run_in_words(view):
    table = QAccessible.queryAccessibleInterface(view)
    script = Script().step("9" + SOLVED[1:], {2, 3}, {5: {"4": 0.45, "1": 0.3}})
    script.step("9" + SOLVED[1:], {2}, {5: {"4": 0.45, "1": 0.3}})
    view.set_frame(shown(script))
    assert table.text(DESCRIPTION).startswith("Step 2: 1 of 81 cells accepted, ")
    said = [table.child(index).text(NAME).partition(": ")[2] for index in range(6)]
    assert said[0].startswith("9 where the given is 5, candidate, changed given")
    assert said[1] == "3, given, candidate"
    assert said[2] == "4, settled"
    assert said[3] == "6, taken back"
    assert said[5] == "no digit, noise"
    assert (
        table.child(5).text(DESCRIPTION)
        == f"Pencil marks: 4 at 45 %, 1 at 30 %, On the canvas: '{NOISE}', Entropy: 0.500 nats"
    )
    assert "Taken back 1 time" in view.cell_text(3)
    assert table.child(3).state().readOnly
    wrong = SOLVED[:2] + "1" + SOLVED[3:]
    view.set_frame(shown(script.commit(wrong)))
    assert table.text(DESCRIPTION) == "Not solved: 1 of 51 blanks wrong. After 2 steps."
    assert table.child(2).text(NAME).endswith("1, settled, in conflict, wrong")
    assert table.child(0).text(NAME).endswith(": 5, given")

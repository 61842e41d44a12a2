"""The board widget: keys, mouse, clipboard, painting, motion, and what it says to assistive technology."""

from __future__ import annotations

import gc
import itertools

import pytest
from PySide6.QtCore import QAbstractAnimation, QCoreApplication, QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QAccessible, QGuiApplication, QHelpEvent, QImage, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app.board.legend import BoardLegend
from app.design import motion, themes
from app.design.tokens import DARKROOM, PAPER, color
from app.state.sudoku.board import EMPTY, SIZE, Board
from app.state.sudoku.solve_frame import SolveFrame, frame
from app.sudoku.board.view import BoardView
from tests.app.sudoku.scripted import NOISE, PUZZLE, SOLVED, Script, piece

# Said by the offscreen platform whenever a window or a tool tip is shown.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

THEMES = pytest.mark.parametrize("theme", [DARKROOM, PAPER], ids=lambda theme: theme.name)
BOARD = Board(PUZZLE)
NAME, DESCRIPTION, VALUE = QAccessible.Text.Name, QAccessible.Text.Description, QAccessible.Text.Value
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


def pixels(view: QWidget) -> QImage:
    return view.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


def middle(view: BoardView, cell: int) -> QPoint:
    rect = view.grid.rect_of(cell)
    return QPoint(rect.x + rect.width // 2, rect.y + rect.height // 2)


# -------------------------------------------------------------------------------------------------------------- keys


def test_digits_arrows_and_clearing(view, qtbot):
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


def test_keys_that_are_not_the_boards_go_on(view, qtbot):
    for key in (Qt.Key.Key_A, Qt.Key.Key_Space, Qt.Key.Key_Escape):
        event = QKeyEvent(QEvent.Type.KeyPress, key, Qt.KeyboardModifier.NoModifier, chr(key) if key < 128 else "")
        QCoreApplication.sendEvent(view, event)
        assert not event.isAccepted()
    qtbot.keyClick(view, Qt.Key.Key_5, CONTROL)
    assert view.board == EMPTY


def test_a_digit_counts_as_it_is_written_whatever_its_key():
    view = BoardView()
    for text, modifiers in (("4", SHIFT), ("\u0664", Qt.KeyboardModifier.NoModifier)):  # a French and an Arabic 4
        event = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Apostrophe, modifiers, text)
        QCoreApplication.sendEvent(view, event)
        assert view.board[0] == "4"
        view.clear_all()


def test_the_ends_of_rows_and_of_the_board(view, qtbot):
    view.selected = 40
    places = []
    for key, modifier in itertools.product(
        (Qt.Key.Key_Home, Qt.Key.Key_End), (Qt.KeyboardModifier.NoModifier, CONTROL)
    ):
        view.selected = 40
        qtbot.keyClick(view, key, modifier)
        places.append(view.selected)
    assert places == [36, 0, 44, 80]
    qtbot.keyClick(view, Qt.Key.Key_Right)
    assert view.selected == 80


def test_undo_and_redo_by_their_keys(view, qtbot):
    qtbot.keyClick(view, Qt.Key.Key_1)
    qtbot.keyClick(view, Qt.Key.Key_2)
    qtbot.keyClick(view, Qt.Key.Key_Z, CONTROL)
    assert view.board[0] == "1"
    qtbot.keyClick(view, Qt.Key.Key_Z, CONTROL | SHIFT)
    assert view.board[0] == "2"
    qtbot.keyClick(view, Qt.Key.Key_Z, CONTROL)
    qtbot.keyClick(view, Qt.Key.Key_Y, CONTROL)
    assert view.board[0] == "2"
    qtbot.keyClick(view, Qt.Key.Key_Y, CONTROL)
    assert view.board[0] == "2"


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


# --------------------------------------------------------------------------------------------------- mouse, clipboard


def test_a_click_sets_the_cursor_and_the_pointer_is_told(view, qtbot):
    selected, hovered = [], []
    view.cellSelected.connect(selected.append)
    view.cellHovered.connect(hovered.append)
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=middle(view, 31))
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(1, 1))  # beside the board
    assert view.selected == 31
    assert selected == [31]
    where, none = QPointF(middle(view, 12)), Qt.MouseButton.NoButton
    move = QMouseEvent(QEvent.Type.MouseMove, where, where, none, none, Qt.KeyboardModifier.NoModifier)
    QCoreApplication.sendEvent(view, move)
    view.leaveEvent(QEvent(QEvent.Type.Leave))
    assert hovered[-2:] == [12, -1]
    view.hovered = 99
    assert view.hovered == -1


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


def test_what_is_no_puzzle_is_refused_and_nothing_is_lost(view, qtbot):
    view.set_puzzle(BOARD)
    with qtbot.waitSignal(view.refused) as refused:
        view.paste_text("no puzzle")
    assert "no puzzle" in refused.args[0]
    assert view.board == BOARD


# --------------------------------------------------------------------------------------------------------- two manners


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


def test_another_puzzle_puts_a_run_away_and_can_be_undone(view):
    changes: list[Board] = []
    view.changed.connect(changes.append)
    view.set_frame(shown(Script()))
    view.set_puzzle(BOARD)
    view.set_puzzle(BOARD)
    assert view.frame is None
    assert changes == [BOARD]
    view.undo()
    assert view.board == EMPTY


def test_what_a_run_wrote_is_copied(view):
    view.set_frame(shown(Script().step(SOLVED, set(range(SIZE)), {}).commit(SOLVED)))
    view.copy()
    assert QGuiApplication.clipboard().text() == SOLVED


def test_a_board_that_waits_takes_no_digits(view, qtbot):
    view.set_read_only(True)
    qtbot.keyClick(view, Qt.Key.Key_5)
    assert view.board == EMPTY
    view.set_read_only(False)
    qtbot.keyClick(view, Qt.Key.Key_5)
    assert view.board[0] == "5"


# ------------------------------------------------------------------------------------------------------------ painting


@THEMES
def test_conflicts_are_joined_by_a_line(view, theme):
    themes.publish(theme)
    view.set_puzzle(Board("5" + "0" * 7 + "5" + "0" * 72))
    between = middle(view, 4)
    with_line = pixels(view).pixelColor(between)
    view.set_puzzle(Board("5" + "0" * 7 + "6" + "0" * 72))
    assert pixels(view).pixelColor(between) == color(theme.surface_sunken)
    assert with_line != color(theme.surface_sunken)


def test_the_frame_of_the_board_is_lit_while_a_run_develops(view):
    edge = QPoint(view.grid.left, view.grid.top + view.grid.side - 20)
    script = Script().step(SOLVED, set(range(SIZE)), {})
    view.set_frame(shown(script))
    assert pixels(view).pixelColor(edge) == color(DARKROOM.accent)
    view.set_frame(shown(script.commit(SOLVED)))
    assert pixels(view).pixelColor(edge) != color(DARKROOM.accent)


def test_an_empty_board_says_what_to_do(view):
    invited = pixels(view)
    view.set_read_only(True)
    assert pixels(view) != invited
    view.set_read_only(False)
    assert pixels(view) == invited


@THEMES
@pytest.mark.parametrize("size", [280, 900])
def test_all_sizes_and_themes_are_painted_with_every_token(view, theme, size):
    themes.publish(theme)
    view.resize(size, size)
    blank = pixels(view)
    for noise in ("\n", "<eos>", "", "Wörter", "語", "\u0301", "<|turn>user"):
        found = shown(Script())
        cells = tuple(cell._replace(text=noise) for cell in found.cells)
        view.set_frame(SolveFrame(PUZZLE, cells, (), True, -1, None, 0, False, None))
        assert pixels(view) != blank


# -------------------------------------------------------------------------------------------------------------- motion


def fading(view: BoardView) -> bool:
    return view.findChild(QAbstractAnimation).state() == QAbstractAnimation.State.Running


def test_a_step_tints_what_it_locked_or_melted_and_ends(view, qtbot):
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


def test_nothing_moves_under_reduced_motion(view):
    script = Script().step(SOLVED, {2, 3}, {})
    view.set_frame(shown(script))
    view.set_frame(shown(script.step(SOLVED, {2}, {})))
    assert not fading(view)
    motion.set_reduced(False)
    view.set_frame(shown(script.step(SOLVED, {2, 3}, {})))
    motion.set_reduced(True)
    assert not fading(view)


# ----------------------------------------------------------------------------------------------------------- in words


def test_a_table_of_cells_in_words(view):
    view.set_puzzle(Board("5" + "0" * 7 + "5" + "0" * 72))
    table = QAccessible.queryAccessibleInterface(view)
    assert table.role() == QAccessible.Role.Table
    assert table.text(NAME) == "Sudoku board"
    assert table.text(DESCRIPTION) == "2 digits entered, 1 conflict."
    assert table.childCount() == SIZE
    assert table.child(0).text(NAME) == "Row 1, column 1: 5, given, in conflict"
    assert table.child(0).text(VALUE) == "5"
    assert table.child(1).text(NAME) == "Row 1, column 2: blank"
    assert table.child(SIZE) is None
    view.show()
    for index in (0, 40, 80):
        cell = table.child(index)
        assert cell.role() == QAccessible.Role.Cell
        assert table.indexOfChild(cell) == index
        assert not cell.state().readOnly
        where = cell.rect().center()
        assert table.childAt(where.x(), where.y()) is cell
    view.selected = 40
    assert table.focusChild() is table.child(40)
    assert table.child(40).state().selected
    assert not table.child(0).state().selected


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


def test_a_tool_tip_says_what_is_known_of_a_cell(view, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda _where, text, *_rest: said.append(text))
    view.set_frame(shown(Script().step(SOLVED, {2}, {})))
    where = middle(view, 2)
    QCoreApplication.sendEvent(view, QHelpEvent(QEvent.Type.ToolTip, where, view.mapToGlobal(where)))
    assert "Row 1, column 3: 4, accepted" in said[0]
    assert "0.500 nats" in said[0]


@pytest.mark.usefixtures("qapp")
def test_what_was_handed_out_outlives_the_board():
    kept = []
    for _ in range(3):
        view = BoardView()
        kept.append(QAccessible.queryAccessibleInterface(view).child(3))
        view.deleteLater()
        del view
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
    assert not any(cell.isValid() for cell in kept)
    assert {cell.text(NAME) for cell in kept} == {""}


# -------------------------------------------------------------------------------------------------------------- legend


@THEMES
def test_the_legend_explains_the_marks_that_are_in_sight(qtbot, theme):
    legend = BoardLegend()
    qtbot.addWidget(legend)
    themes.publish(theme)
    legend.resize(400, 80)
    assert legend.words == ["given", "in conflict"]
    few = pixels(legend)
    legend.set_running(True)
    assert {"noise", "likely", "accepted", "taken back", "settled", "changed given", "wrong"} < set(legend.words)
    assert legend.accessibleDescription() == ", ".join(legend.words)
    assert pixels(legend) != few
    assert legend.heightForWidth(200) > legend.heightForWidth(1200)

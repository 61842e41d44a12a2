"""Text put together from tokens, and the pane that shows it at each frame."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QTextCursor

from app.design import themes
from app.design.tokens import color
from app.inspector.cell.text import RenderedText, TextMap, read, shown
from app.player.player import Player
from tests.app.canvas import pointing
from tests.app.inspector import made_up

PIECES = {0: "<pad>", 1: "<eos>", 2: "Hi", 3: " you", 4: "\n", 5: "👩‍🔬", 6: "שלום", 7: " end", 8: "x", 9: "", 25: "~"}


def special(token: int) -> bool:
    return token in (0, 1)


def read_pieces(*tokens: int) -> TextMap:
    return read(tokens, PIECES.__getitem__, special)


def test_ranges_of_positions():
    reading = read_pieces(2, 3, 1, 4, 9, 7)
    assert reading.text == "Hi you\n end"
    assert reading.edges == (0, 2, 6, 6, 7, 7, 11)
    assert [reading.span(p) for p in (0, 1, 2, 3)] == [(0, 2), (2, 6), (6, 6), (6, 7)]
    assert [reading.position_at(offset) for offset in range(-1, 12)] == [-1, 0, 0, 1, 1, 1, 1, 3, 5, 5, 5, 5, -1]
    with pytest.raises(IndexError, match="text of 6 positions"):
        reading.span(6)
    assert read_pieces(5, 2, 6).edges == (0, 5, 7, 11)  # in the units that Qt counts in
    assert {read_pieces(5, 2, 6).position_at(offset) for offset in range(5)} == {0}
    assert read((), str, special).position_at(0) == -1


def test_nothing_is_swallowed_or_obeyed():
    assert shown("a\tb\nc") == "a\tb\nc"
    assert shown("a\u2029b\u2028c\x0bd") == "a\nb\nc\nd"
    assert shown("a\r\nb") == "a\nb"
    assert shown("\x00\u202e\ufdd0\udc80\U0001ffff") == "◇◇◇◇◇"
    assert shown("👩‍🔬é שלום") == "👩‍🔬é שלום"  # joiners belong to what they join


def run() -> list:
    """Two blocks of four: the first is committed with its end after two positions, the second is a draft."""
    return [
        made_up.started(4),
        made_up.step_event(0, (2, 8, 1, 8), (2, 3, 1, 8), (True, False, True, False)),
        made_up.step_event(1, (2, 3, 1, 8), (2, 3, 1, 8), (True, True, True, False)),
        made_up.committed((2, 3, 4, 6), 4, 2),
        made_up.started(4, 1),
        made_up.step_event(0, (5, 7, 1, 8), (5, 7, 1, 8), (True, False, True, False), block=1),
        made_up.committed((5, 7, 1, 0), 2, 1, 1),
    ]


def recorded(*damaged: int) -> made_up.Recorded:
    return made_up.Recorded(run(), PIECES, special=(0, 1), damaged=damaged)


@pytest.fixture
def player(player: Player) -> Player:
    player.open(recorded())
    return player


@pytest.fixture
def view(qtbot, player) -> RenderedText:
    return pointing.shown(qtbot, RenderedText(player), 400, 240)


FIRST = "Hi you\nשלום"
READS = ["~~~~", "Hixx", "Hi youx", FIRST, FIRST + "~~~~", FIRST + "👩‍🔬 endx", FIRST + "👩‍🔬 end"]


def test_the_text_reads_as_at_the_frame(view, player):
    for place in (*range(7), 2, 5, 0, 3):  # in any order
        player.go(place)
        assert view.pane.toPlainText() == view.text == READS[place]
    player.open(trace := recorded())
    assert view.pane.toPlainText() == READS[-1]
    assert not {0, 1, 2} & set(trace.read)  # of the first block its commit alone


def marks(view: RenderedText) -> dict[str, list[tuple[int, int]]]:
    """Lists the places of each background."""
    found: dict[str, list[tuple[int, int]]] = {}
    for mark in view.pane.extraSelections():
        cursor = mark.cursor
        name = mark.format.background().color().name() if mark.format.hasProperty(0x820) else "none"
        found.setdefault(name, []).append((cursor.selectionStart(), cursor.selectionEnd()))
    return found


@pointing.THEMES
def test_the_selected_and_the_hovered_cell_are_tinted(view, player, theme):
    themes.publish(theme)
    player.go(2)
    player.select(0)
    player.point(1)
    assert marks(view)[color(theme.selection).name()] == [(0, 2)]
    assert marks(view)[color(theme.line_strong).name()] == [(2, 6)]
    player.go(5)  # the next block begins behind the first one's text
    assert marks(view)[color(theme.selection).name()] == [(11, 16)]
    player.point(-1)
    player.select(-1)
    assert [key for key in marks(view) if key != "none"] == []


def character(view: RenderedText, offset: int) -> QPoint:
    """The middle of a character in the pane."""
    here, there = QTextCursor(view.pane.document()), QTextCursor(view.pane.document())
    here.setPosition(offset)
    there.setPosition(offset)
    there.movePosition(QTextCursor.MoveOperation.NextCharacter)
    a, b = view.pane.cursorRect(here), view.pane.cursorRect(there)
    return QPoint((a.left() + b.left()) // 2, a.center().y())


def test_a_click_and_enter_select_the_cell(view, player, qtbot):
    player.go(5)
    for offset, position in ((11, 0), (16, 1), (19, 1), (20, 3)):
        qtbot.mouseClick(view.pane.viewport(), Qt.MouseButton.LeftButton, pos=character(view, offset))
        assert player.selection == position, offset
    qtbot.mouseClick(view.pane.viewport(), Qt.MouseButton.LeftButton, pos=character(view, 0))
    assert player.selection == 3  # the block before shows no cells
    qtbot.mouseClick(view.pane.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(380, 180))
    assert player.selection == 3
    player.select(-1)
    player.go(3)  # whose end is read from right to left
    qtbot.mouseClick(view.pane.viewport(), Qt.MouseButton.LeftButton, pos=character(view, 9))
    assert player.selection == 3
    player.go(2)
    cursor = view.pane.textCursor()
    cursor.setPosition(3)
    view.pane.setTextCursor(cursor)
    qtbot.keyClick(view.pane, Qt.Key.Key_Return)
    assert player.selection == 1
    qtbot.keyClicks(view.pane, "abc")
    assert view.pane.toPlainText() == READS[2]


def test_words_follow_the_frame(view, player):
    player.go(0)
    assert view.accessibleDescription() == "Block 1, before the first step: noise."
    player.go(2)
    assert view.accessibleDescription() == "Block 1, draft at step 2."
    player.select(1)
    assert view.caption.text() == "Position 1: ' you'"
    player.select(2)
    assert view.caption.text() == "Position 2: end of text, which has no text of its own."
    player.go(6)
    assert view.accessibleDescription() == "Block 2, finished."
    player.select(3)
    assert view.caption.text() == "Position 3: padding, after the end of the block's text."
    player.open(None)
    assert (view.pane.toPlainText(), view.accessibleDescription()) == ("", "No text yet.")


def test_a_damaged_block_is_said_and_the_rest_is_shown(view, player):
    player.open(recorded(3), 5)
    assert view.pane.toPlainText() == "[Block 1 cannot be read.]👩‍🔬 endx"

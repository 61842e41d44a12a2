"""The map of positions and steps, which lights what the player points at."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QColor

from app.design.tokens import DARKROOM, color, entropy_color
from app.inspector.canvas.map import StepMap, entropy_top, heat
from app.player.player import Player
from app.state.run.replay import Replay
from tests.app.canvas.pointing import THEMES, move, shown
from tests.app.inspector import made_up
from tests.app.inspector.made_up import recorded, short_run

LENGTH, TEXT = 6, 4


@pytest.fixture
def player(player: Player) -> Player:
    player.open(made_up.Recorded(short_run(2)), 2)
    return player


@pytest.fixture
def view(qtbot, player) -> StepMap:
    return shown(qtbot, StepMap(player), 480, 400)


def cell(view: StepMap, position: int, step: int) -> QPoint:
    area = view.area
    return QPoint(area.x_of(step) + area.column // 2, area.y_of(position) + area.row // 2)


def shade_at(view: StepMap, point: QPoint) -> QColor:
    image = view.area.viewport().grab().toImage()
    ratio = image.devicePixelRatio()
    return QColor(image.pixel(round(point.x() * ratio), round(point.y() * ratio)))


@THEMES
def test_heat_is_entropy_without_padding(theme):
    record = Replay(made_up.Recorded(short_run())).record(0)
    assert entropy_top(record) == 2.0  # the 3 nats of position 4 are padding
    image = heat(record, theme)
    assert (image.width(), image.height()) == (3, TEXT)
    assert QColor(image.pixel(0, 1)) == entropy_color(1.0, theme)
    assert QColor(image.pixel(2, 0)) == entropy_color(0.0, theme)


def test_all_rows_are_seen_where_there_is_room_and_padding_is_folded(view, player):
    player.open(recorded("sudoku-hard"), 5)
    view.resize(480, 520)
    area = view.area
    assert (area.record.length, area.rows) == (96, 89)
    assert area.verticalScrollBar().maximum() == 0
    assert area.y_of(area.rows) + area.fold <= area.viewport().height()
    assert area.position_at(area.y_of(area.rows) + 2) == -1
    player.select(95)  # padding has no row
    assert area.verticalScrollBar().value() == 0
    view.grab()


def test_accepted_and_taken_back_are_marked(view):
    under = QPoint(0, view.area.row - 4 - view.area.row // 2 + 1)
    marked = shade_at(view, cell(view, 2, 2) + under), shade_at(view, cell(view, 2, 0) + under)
    assert marked[0].lightness() > marked[1].lightness()
    assert shade_at(view, cell(view, 1, 2)).lightness() > 200  # the dot of a token taken back
    assert shade_at(view, cell(view, 3, 2)) == entropy_color(127 / 255, DARKROOM)  # never accepted: no mark
    assert view.legend.words == ["entropy, 0 to 2.00 nats", "accepted", "taken back"]


def test_pointing_is_linked_in_both_directions(view, player):
    hovered = []
    player.hovered.connect(hovered.append)
    move(view.area, cell(view, 3, 1))
    move(view.area, cell(view, 3, 2))
    assert (player.hover, hovered) == (3, [3])
    assert shade_at(view, QPoint(view.area.x_of(0) + 5, view.area.y_of(3) - 1)) == color(DARKROOM.ink)
    player.point(0)
    assert shade_at(view, QPoint(view.area.x_of(0) + 5, view.area.y_of(3) - 1)) != color(DARKROOM.ink)
    assert shade_at(view, QPoint(view.area.x_of(0) + 5, view.area.y_of(0) + view.area.row - 1)) == color(DARKROOM.ink)
    view.area.viewportEvent(QEvent(QEvent.Type.Leave))
    assert player.hover == -1


def test_a_click_selects_and_goes_to_the_step_and_keys_select(view, player, qtbot):
    for position, step in ((1, 2), (3, 0), (0, 1)):
        qtbot.mouseClick(view.area.viewport(), Qt.MouseButton.LeftButton, pos=cell(view, position, step))
        assert (player.selection, player.frame.step, player.frame.block) == (position, step, 0)
    where = QPoint(4, view.area.y_of(2) + 3)  # on the number: the position alone
    qtbot.mouseClick(view.area.viewport(), Qt.MouseButton.LeftButton, pos=where)
    assert (player.selection, player.frame.step) == (2, 1)
    for key, position in (
        (Qt.Key.Key_Down, 3),
        (Qt.Key.Key_Up, 2),
        (Qt.Key.Key_Up, 1),
        (Qt.Key.Key_Up, 0),
        (Qt.Key.Key_Up, 0),
    ):
        qtbot.keyClick(view.area, key)
        assert (player.selection, player.frame.step) == (position, 1)


def test_in_words(view, player):
    player.go(3)
    player.select(1)
    assert view.area.accessibleDescription() == (
        "Block 1: 6 positions by 3 steps. Step 3: 2 accepted, 1 taken back, entropy 0.375 nats a cell. "
        "Position 1: Accepted at 1 of 3 steps, taken back once, settled at step 1 as 'f'."
    )
    said = "Position 1. Step 3: best guess and sampled 'f', taken back; entropy 0.000 nats."
    assert view.area.tip_at(QPoint(view.area.x_of(2) + 1, view.area.y_of(1) + 1)) == said
    player.open(None)
    assert "Open a run" in view.accessibleDescription()
    assert not view.legend.isVisible()
    view.grab()

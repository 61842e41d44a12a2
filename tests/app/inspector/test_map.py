"""The map of positions and steps, which lights what the player points at."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QMouseEvent

from app.design import themes
from app.design.tokens import DARKROOM, PAPER, color, entropy_color
from app.inspector.canvas.map import StepMap, entropy_top, heat
from app.player.player import Player
from app.state.run.replay import Replay
from engine import SKILLS, generate, load_model
from tests.app.inspector import made_up
from tests.app.inspector.made_up import short_run
from tests.app.inspector.test_boards import recorded

LENGTH, TEXT = 6, 4
THEMES = pytest.mark.parametrize("theme", [DARKROOM, PAPER], ids=lambda theme: theme.name)


@pytest.fixture
def player(qapp) -> Player:  # noqa: ARG001 - a timer needs it
    player = Player()
    player.open(made_up.Recorded(short_run(2)), 2)
    return player


@pytest.fixture
def view(qtbot, player) -> StepMap:
    view = StepMap(player)
    qtbot.addWidget(view)
    view.resize(480, 400)
    view.show()
    qtbot.waitExposed(view)
    return view


def cell(view: StepMap, position: int, step: int) -> QPoint:
    area = view.area
    return QPoint(area.x_of(step) + area.column // 2, area.y_of(position) + area.row // 2)


def move(widget, point: QPoint) -> None:
    none = Qt.MouseButton.NoButton
    where = QPointF(point)
    widget.mouseMoveEvent(QMouseEvent(QEvent.Type.MouseMove, where, where, none, none, Qt.KeyboardModifier.NoModifier))


def shade_at(view: StepMap, point: QPoint) -> QColor:
    image = view.area.viewport().grab().toImage()
    ratio = image.devicePixelRatio()
    return QColor(image.pixel(round(point.x() * ratio), round(point.y() * ratio)))


# -------------------------------------------------------------------------------------------------------- data


@THEMES
def test_heat_is_entropy_without_padding(theme):
    record = Replay(made_up.Recorded(short_run())).record(0)
    assert entropy_top(record) == 2.0  # the 3 nats of position 4 are padding
    image = heat(record, theme)
    assert (image.width(), image.height()) == (3, TEXT)
    assert QColor(image.pixel(0, 1)) == entropy_color(1.0, theme)
    assert QColor(image.pixel(2, 0)) == entropy_color(0.0, theme)


def test_heat_before_the_end_is_known():
    record = Replay(made_up.Recorded(short_run()[:-1])).record(0)
    assert entropy_top(record) == 3.0
    assert QColor(heat(record, DARKROOM).pixel(0, 4)) == entropy_color(1.0, DARKROOM)


# -------------------------------------------------------------------------------------------------------- scrolling


def test_another_run_is_seen_from_its_beginning(view, player):
    view.resize(240, 90)
    bar = view.area.verticalScrollBar()
    assert bar.maximum() > 0
    bar.setValue(bar.maximum())
    player.go(1)  # within a run the place is kept
    assert bar.value() == bar.maximum()
    player.open(made_up.Recorded(short_run(2)), 2)
    assert bar.value() == 0


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


def test_the_legend_says_what_its_words_mean(view):
    rects = view.legend._rects(view.legend.width())[0]
    middles = [QPoint(rect.x + rect.width // 2, rect.y + rect.height // 2) for rect in rects]
    assert [view.legend.tip_at(point) for point in middles] == [
        "How unsure the model is of a cell at a step",
        "The token was sure enough to stay",
        "Accepted at the step before, and no longer",
    ]
    assert view.legend.tip_at(QPoint(-5, -5)) == ""


# -------------------------------------------------------------------------------------------------------- painting


@THEMES
def test_cells_have_the_colour_of_their_entropy(view, theme):
    themes.publish(theme)
    assert shade_at(view, cell(view, 1, 0) - QPoint(4, 2)) == entropy_color(1.0, theme)


def test_accepted_and_remelted_are_marked(view):
    under = QPoint(0, view.area.row - 4 - view.area.row // 2 + 1)
    marked = shade_at(view, cell(view, 2, 2) + under), shade_at(view, cell(view, 2, 0) + under)
    assert marked[0].lightness() > marked[1].lightness()
    assert shade_at(view, cell(view, 1, 2)).lightness() > 200  # the dot of a remelt
    assert shade_at(view, cell(view, 3, 2)) == entropy_color(127 / 255, DARKROOM)  # never accepted: no mark
    assert view.legend.words == ["entropy, 0 to 2.00 nats", "accepted", "taken back"]


# -------------------------------------------------------------------------------------------------------- linked


def test_pointing_is_linked_both_ways(view, player):
    told = []
    player.hovered.connect(told.append)
    move(view.area, cell(view, 3, 1))
    move(view.area, cell(view, 3, 2))
    assert (player.hover, told) == (3, [3])
    assert shade_at(view, QPoint(view.area.x_of(0) + 5, view.area.y_of(3) - 1)) == color(DARKROOM.ink)
    player.point(0)
    assert shade_at(view, QPoint(view.area.x_of(0) + 5, view.area.y_of(3) - 1)) != color(DARKROOM.ink)
    assert shade_at(view, QPoint(view.area.x_of(0) + 5, view.area.y_of(0) + view.area.row - 1)) == color(DARKROOM.ink)
    view.area.viewportEvent(QEvent(QEvent.Type.Leave))
    assert player.hover == -1


def test_a_click_selects_and_goes_to_the_step(view, player, qtbot):
    for position, step in ((1, 2), (3, 0), (0, 1)):
        qtbot.mouseClick(view.area.viewport(), Qt.MouseButton.LeftButton, pos=cell(view, position, step))
        assert (player.selection, player.frame.step, player.frame.block) == (position, step, 0)
    where = QPoint(4, view.area.y_of(2) + 3)  # on the number: the position alone
    qtbot.mouseClick(view.area.viewport(), Qt.MouseButton.LeftButton, pos=where)
    assert (player.selection, player.frame.step) == (2, 1)


def test_keys(view, player, qtbot):
    keys = [Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_Up]
    found = []
    for key in keys:
        qtbot.keyClick(view.area, key)
        found.append((player.selection, player.frame.step))
    assert found == [(0, 1), (1, 1), (0, 1), (0, 1)]


def test_a_selected_row_scrolls_into_sight(view, player):
    player.open(made_up.Recorded(made_up.random_run(4, 256)))
    bar = view.area.verticalScrollBar()
    assert bar.maximum() > 0
    for position in (200, view.area.rows - 1, 0, 100):
        player.select(position)
        assert view.area.top() <= view.area.y_of(position)
        assert view.area.y_of(position) + view.area.row <= view.area.viewport().height()


def test_the_next_block_comes_with_its_frames(view, player):
    player.go_to_block(1)
    assert view.area.record.index == 1
    assert view.accessibleDescription().startswith("Block 2: 6 positions by 3 steps.")


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


def test_it_grows_with_a_live_short_run(view, player):
    events = short_run()
    trace = made_up.Recorded(events[:2])
    player.open(trace)
    assert view.area.steps == 1
    trace.grow(events[2:4])
    player.refresh()
    assert (view.area.steps, player.frame.step) == (3, 2)
    trace.append(events[4])
    player.refresh()
    assert (view.area.rows, view.area.fold > 0) == (TEXT, True)
    view.grab()


def test_before_the_first_step(view, player):
    player.open(made_up.Recorded(short_run()[:1]))
    view.grab()
    player.select(3)
    assert view.area.step_at(200) == -1
    assert view.area.accessibleDescription() == ("Block 1: 6 positions by 0 steps. Position 3: No step was taken yet.")


def test_a_real_run_is_mapped(view, player):
    model = load_model(SKILLS, device="cpu")
    settings = model.generation_defaults.replace(max_denoising_steps=6, confidence_threshold=0.0)
    prompt = model.chat_ids([{"role": "user", "content": "Write the times table of 8."}])
    trace = made_up.Recorded(list(generate(model, prompt, settings, seed=3)))
    trace.piece, trace.is_special = model.tokenizer.piece, model.tokenizer.is_special
    player.open(trace)
    for place in range(len(player.replay.frames)):
        player.go(place)
        record = view.area.record
        assert record.index == player.frame.block
        live = player.snapshot
        if 0 <= player.frame.step < record.steps:
            counted = slice(0, record.text_length)
            assert f"{int(live.accepted_mask[counted].sum())} accepted" in view.area.words()
    view.grab()

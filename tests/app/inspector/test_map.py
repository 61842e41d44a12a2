"""The map of positions and steps, and the view of measured influence: both light what the player points at."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QMouseEvent

from app.inspector.influence_map import Influence
from app.inspector.influence_view import InfluenceView
from app.inspector.map import StepMap
from app.inspector.map_area import entropy_top, heat
from app.inspector.player import Player
from app.state.replay import Replay
from app.theme import DARKROOM, PAPER, color, entropy_color
from engine import SKILLS, generate, load_model
from tests.app.inspector import linked

LENGTH, TEXT = 6, 4
THEMES = pytest.mark.parametrize("theme", [DARKROOM, PAPER], ids=lambda theme: theme.name)


def run(blocks: int = 1) -> list:
    """Three steps; position 1 is remelted at step 2; the last two positions end up as padding."""
    events = []
    for block in range(blocks):
        events.append(linked.started(LENGTH, block))
        for step in range(3):
            accepted = [True, step == 1, step > 0, False, True, True]
            entropy = [0.0, 2.0 - step, 0.5, 1.0, 3.0, 0.0]
            top = ([[5, 6, 7]] * LENGTH, [[0.7, 0.2, 0.1]] * LENGTH)
            events.append(
                linked.step_event(step, [5] * LENGTH, [5] * LENGTH, accepted, block=block, entropy=entropy, top=top)
            )
        events.append(linked.committed([5] * TEXT + [1, 0], TEXT, 3, block))
    return events


@pytest.fixture
def player(qapp) -> Player:  # noqa: ARG001 - a timer needs it
    player = Player()
    player.open(linked.FakeTrace(run(2)), 2)
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
    record = Replay(linked.FakeTrace(run())).record(0)
    assert entropy_top(record) == 2.0  # the 3 nats of position 4 are padding
    image = heat(record, theme)
    assert (image.width(), image.height()) == (3, LENGTH)
    assert QColor(image.pixel(0, 1)) == entropy_color(1.0, theme)
    assert QColor(image.pixel(2, 0)) == entropy_color(0.0, theme)
    assert {QColor(image.pixel(step, row)).name() for step in range(3) for row in (4, 5)} == {color(theme.line).name()}


def test_heat_before_the_end_is_known():
    record = Replay(linked.FakeTrace(run()[:-1])).record(0)
    assert entropy_top(record) == 3.0
    assert QColor(heat(record, DARKROOM).pixel(0, 4)) == entropy_color(1.0, DARKROOM)


# -------------------------------------------------------------------------------------------------------- painting


@THEMES
def test_cells_have_the_colour_of_their_entropy(view, theme):
    view.set_theme(theme)
    assert shade_at(view, cell(view, 1, 0) - QPoint(4, 2)) == entropy_color(1.0, theme)
    assert shade_at(view, cell(view, 4, 0)) == color(theme.line)


def test_accepted_and_remelted_are_marked(view):
    under = QPoint(0, view.area.row - 4 - view.area.row // 2 + 1)
    marked = shade_at(view, cell(view, 2, 2) + under), shade_at(view, cell(view, 2, 0) + under)
    assert marked[0].lightness() > marked[1].lightness()
    assert shade_at(view, cell(view, 1, 2)).lightness() > 200  # the dot of a remelt
    assert shade_at(view, cell(view, 3, 2)) == entropy_color(127 / 255, DARKROOM)  # never accepted: no mark
    assert view.legend.words == ["entropy, 0 to 2.00 nats", "accepted", "remelted", "padding, not counted"]


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
    for position, step in ((1, 2), (3, 0), (5, 1)):
        qtbot.mouseClick(view.area.viewport(), Qt.MouseButton.LeftButton, pos=cell(view, position, step))
        assert (player.selection, player.frame.step, player.frame.block) == (position, step, 0)
    where = QPoint(4, view.area.y_of(2) + 3)  # on the number: the position alone
    qtbot.mouseClick(view.area.viewport(), Qt.MouseButton.LeftButton, pos=where)
    assert (player.selection, player.frame.step) == (2, 1)


def test_keys(view, player, qtbot):
    keys = [Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Right, Qt.Key.Key_Left]
    found = []
    for key in keys:
        qtbot.keyClick(view.area, key)
        found.append((player.selection, player.frame.step))
    assert found == [(0, 1), (1, 1), (0, 1), (0, 1), (0, 2), (0, 1)]


def test_a_selected_row_scrolls_into_sight(view, player):
    player.open(linked.FakeTrace(linked.random_run(4, 256)))
    bar = view.area.verticalScrollBar()
    assert bar.maximum() > 0
    for position in (200, 255, 0, 100):
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
        "Block 1: 6 positions by 3 steps. Step 2: 2 accepted, 1 remelted, 0.375 nats a position. "
        "Position 1: Accepted at 1 of 3 steps, remelted once, settled at step 0 as 'f'."
    )
    said = "Position 1. Step 2: argmax and sampled 'f', re-noised, which is a remelt; entropy 0.000 nats."
    assert view.area.cell_words(1, 2) == said
    assert view.area.cell_words(-1, 2) == ""
    player.open(None)
    assert "Open a trace" in view.accessibleDescription()
    assert not view.legend.isVisible()
    view.grab()


def test_it_grows_with_a_live_run(view, player):
    events = run()
    trace = linked.FakeTrace(events[:2])
    player.open(trace)
    assert view.area.steps == 1
    trace.events += events[2:4]
    player.refresh()
    assert (view.area.steps, player.frame.step) == (3, 2)
    trace.events.append(events[4])
    player.refresh()
    assert "padding, not counted" in view.legend.words
    view.grab()


def test_before_the_first_step(view, player):
    player.open(linked.FakeTrace(run()[:1]))
    view.grab()
    player.select(3)
    assert view.area.step_at(200) == -1
    assert view.area.accessibleDescription() == ("Block 1: 6 positions by 0 steps. Position 3: No step was taken yet.")


def test_a_real_run_is_mapped(view, player):
    model = load_model(SKILLS, device="cpu")
    settings = model.generation_defaults.replace(max_denoising_steps=6, confidence_threshold=0.0)
    prompt = model.chat_ids([{"role": "user", "content": "Write the times table of 8."}])
    trace = linked.FakeTrace(list(generate(model, prompt, settings, seed=3)))
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


# -------------------------------------------------------------------------------------------------------- influence

KL = np.array([0.0, 9.0, 0.02, 0.5, 0.001, 0.0])


@pytest.fixture
def influence(qtbot, player) -> InfluenceView:
    view = InfluenceView(player)
    qtbot.addWidget(view)
    view.resize(480, 600)
    view.show()
    qtbot.waitExposed(view)
    return view


def test_a_position_has_no_influence_on_itself():
    found = Influence(1, 5, 6, KL, 1)
    assert found.most == 0.5
    assert found.moved(2) == [(3, 0.5), (2, 0.02)]
    assert found.moved(9) == [(3, 0.5), (2, 0.02), (4, 0.001)]
    nothing = Influence(1, 5, 5, np.zeros(6), 1)
    assert (nothing.most, nothing.moved(9)) == (0.0, [])


def test_the_empty_view_teaches(influence):
    assert "Select a cell" in influence.teaching.text()
    assert influence.teaching.isVisible()
    assert not influence.map.isVisible()
    assert not influence.measure.isEnabled()


def test_asking_with_a_recorded_candidate(influence, player, qtbot):
    player.select(2)
    assert influence.cell.text() == "Position 2: change 'f' to"
    assert [influence.tokens.itemData(place) for place in range(influence.tokens.count())] == [6, 7]
    influence.tokens.setCurrentIndex(1)
    with qtbot.waitSignal(influence.asked) as asked:
        qtbot.mouseClick(influence.measure, Qt.MouseButton.LeftButton)
    assert asked.args == [2, 7]


def test_asking_with_text(influence, player, qtbot):
    player.select(2)
    qtbot.keyClicks(influence.text, " x")
    assert not influence.tokens.isEnabled()
    with qtbot.waitSignal(influence.asked_text) as asked:
        qtbot.keyClick(influence.text, Qt.Key.Key_Return)
    assert asked.args == [2, " x"]
    influence.set_busy(True)
    assert not influence.measure.isEnabled()
    influence.show_problem("That is two tokens; type one.")
    assert influence.problem.isVisible()
    assert influence.measure.isEnabled()


def test_a_refusal_is_said(influence, player):
    player.select(2)
    influence.set_refusal("Load the model of this run to measure.")
    assert influence.cell.text() == "Load the model of this run to measure."
    assert not influence.measure.isEnabled()
    influence.set_refusal("")
    assert influence.measure.isEnabled()


def test_a_measurement_is_shown_and_linked(influence, player, qtbot):
    player.select(1)
    influence.show_influence(1, 5, 6, KL)
    assert influence.what.text() == (
        "Position 1 changed from 'f' to 'g', block 1, step 1. Position 3 moved most, by 0.500 nats. "
        "2 positions moved by 0.01 nats or more."
    )
    assert "Without self-conditioning" in influence.how.text()
    assert influence.legend.words[0] == "KL, 0 to 0.500 nats"
    listed = [influence.list.item(row).text() for row in range(influence.list.count())]
    assert [text.split("   ")[:2] for text in listed] == [
        ["0.5000 nats", "position 3"],
        ["0.0200 nats", "position 2"],
        ["0.0010 nats", "position 4"],
    ]
    influence.list.setCurrentRow(1)
    assert player.selection == 2
    x, y, w, h = influence.map.grid.rect_of(3)
    move(influence.map, QPoint(x + w // 2, y + h // 2))
    assert player.hover == 3
    qtbot.mouseClick(influence.map, Qt.MouseButton.LeftButton, pos=QPoint(x + w // 2, y + h // 2))
    assert player.selection == 3
    qtbot.keyClick(influence.map, Qt.Key.Key_Left)
    assert player.selection == 2
    assert influence.map.cell_words(1) == "Position 1: its token was changed."
    assert influence.map.cell_words(3) == "Position 3 moved by 0.5000 nats."


@THEMES
def test_the_map_of_influence_is_coloured(influence, player, theme):
    influence.set_theme(theme)
    influence.show_influence(1, 5, 6, KL)
    player.select(-1)
    image = influence.map.grab().toImage()
    for place, share in ((0, 0.0), (3, 1.0)):
        x, y, _, _ = influence.map.grid.rect_of(place)
        assert QColor(image.pixel(x + 1, y + 1)) == entropy_color(share, theme)


def test_nothing_moved(influence):
    influence.show_influence(1, 5, 5, np.zeros(LENGTH))
    assert "No other position moved" in influence.what.text()
    assert not influence.list.isVisible()


def test_a_measurement_of_another_canvas_is_refused(influence):
    with pytest.raises(ValueError, match="not of the canvas on show"):
        influence.show_influence(1, 5, 6, np.zeros(3))


def test_another_trace_forgets_the_measurement(influence, player):
    influence.show_influence(1, 5, 6, KL)
    player.open(linked.FakeTrace(run()))
    assert influence.influence is None
    assert influence.teaching.isVisible()

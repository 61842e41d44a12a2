"""Transport, timeline and plots, and the figures they are drawn from."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor

from app.design import themes
from app.inspector.tabs import Plots, round_up
from app.inspector.timeline.overview import Overview, figures_of
from app.inspector.timeline.transport import Timeline, Transport
from app.player.player import SPEEDS, Player
from app.state.run.replay import Replay
from tests.app.canvas.pointing import THEMES, pixels, shown
from tests.app.inspector.made_up import STEPS, Recorded, run


@pytest.fixture
def parts(qtbot):
    """A player with all that follows it here."""
    player = Player()
    overview = Overview(player, player)
    transport = Transport(player, overview)
    shown(qtbot, transport, 900, transport.sizeHint().height())
    player.open(Recorded(run()))
    overview.finish()
    return SimpleNamespace(player=player, overview=overview, transport=transport, timeline=transport.timeline)


def test_figures_are_those_of_the_record():
    record = Replay(Recorded(run(1, text_length=20))).record(0)
    figures = figures_of(record)
    assert (figures.steps, figures.counted, figures.stopped_early) == (STEPS, 20, True)
    assert figures.taken_back.tolist() == [0, 0, 2, 0]
    assert figures.bursts.tolist() == [2]


def test_only_the_shown_block_is_read_while_frames_follow_each_other(qtbot):
    player = Player()
    overview = Overview(player, player)
    player.open(Recorded(run(5)), 0)
    player.toggle()
    overview._work()
    overview._work()
    assert [block for block in range(5) if overview[block] is not None] == [0]
    player.pause()
    qtbot.waitUntil(lambda: overview.complete)


def test_every_button_has_a_name_a_key_and_does_it(parts, qtbot):
    player, buttons = parts.player, parts.transport.buttons
    names = [made.accessibleName() for made in buttons.values()]
    assert len(set(names)) == len(names) == 7
    for made in buttons.values():
        assert "(" in made.toolTip()  # its key

    def press(action: str) -> int:
        qtbot.mouseClick(buttons[action], Qt.MouseButton.LeftButton)
        return player.place

    assert [press(action) for action in ("first", "on", "on", "back", "last")] == [0, 1, 2, 1, 11]
    press("play")
    assert player.is_playing
    press("play")
    assert not player.is_playing
    speed = parts.transport.speed
    assert [speed.itemData(place) for place in range(speed.count())] == list(SPEEDS)
    speed.setCurrentIndex(0)
    speed.activated.emit(0)
    assert player.speed == 0.1
    player.set_speed(4)
    assert speed.currentText() == "4×"


def test_timeline_is_a_slider_over_all_frames(parts):
    timeline: Timeline = parts.timeline
    assert (timeline.minimum(), timeline.maximum(), timeline.value()) == (0, 11, 11)
    parts.player.go(4)
    assert timeline.value() == 4
    said = [timeline.words_at(place) for place in (0, 3, 5)]
    assert said == ["Block 1, before the first step", "Block 1, step 3 of 4", "Block 1, finished"]
    timeline.setValue(7)  # as assistive technology does
    assert parts.player.place == 7


def test_click_and_drag_go_there(parts, qtbot):
    timeline, player = parts.timeline, parts.player

    def at(place: int) -> QPoint:
        return QPoint(round(timeline.x_of(place)), 18)

    player.toggle()
    qtbot.mousePress(timeline, Qt.MouseButton.LeftButton, pos=at(3))
    assert player.place == 3
    assert not player.is_playing
    for place in (4, 6, 2):
        qtbot.mouseMove(timeline, at(place))
    qtbot.mouseRelease(timeline, Qt.MouseButton.LeftButton, pos=at(2))
    assert player.place in (2, 3)  # a window system may leave the moves out


@THEMES
def test_marks_of_early_stops_and_bursts_are_drawn(parts, theme):
    themes.publish(theme)
    parts.player.go(0)
    timeline = parts.timeline
    image = pixels(timeline)

    def around(place: int, code: str) -> bool:
        left = round(timeline.x_of(place)) - 2
        return any(image.pixelColor(x, y) == QColor(code) for x in range(left, left + 4) for y in range(18))

    assert around(5, theme.accepted), "the first block stopped early"
    assert not around(11, theme.accepted), "the second did not"
    assert around(3, theme.taken_back)
    assert around(9, theme.taken_back)
    assert not around(2, theme.taken_back)


@pytest.fixture
def plots(qtbot) -> Plots:
    plots = shown(qtbot, Plots(Player()), 700, 360)
    plots.area.player.open(Recorded(run(1, text_length=12)), 3)
    return plots


def test_lines_are_the_figures_of_the_text_without_padding(plots):
    (entropy,), (accepted, changed) = plots.area.rows
    record = plots.area.player.block
    assert entropy.values[0] == pytest.approx(np.linspace(0, 2, 24)[:12].mean())
    assert (accepted.values, changed.values) == (record.accepted_counts.tolist(), record.change_counts.tolist())
    assert plots.legend.words == ["mean entropy, nats", "accepted cells", "best guess changed"]


def test_a_step_that_is_gone_to_is_described_and_marked(plots, qtbot):
    area = plots.area
    before = area.grab().toImage()
    qtbot.mouseClick(area.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(area.x_of(1) + 2, 60))
    assert area.player.place == 2
    assert area.grab().toImage() != before
    said = area.tip_at(QPoint(area.x_of(1) + 2, 60))
    assert said.startswith("Step 2: mean entropy 0.239 nats, ")
    assert area.accessibleDescription() == said
    area.player.open(None)
    assert (area.rows, area.words_at(0)) == ((), "")
    area.grab()


def test_scales_end_at_round_numbers():
    assert [round_up(value) for value in (0, 0.03, 1, 1.2, 7, 256, 0.5)] == pytest.approx([1, 0.05, 1, 2, 10, 500, 0.5])

"""The plots: what is drawn, where a frame stands on them, and what is said where something is missing."""

from __future__ import annotations

from operator import attrgetter
from types import SimpleNamespace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QImage

from app.design import themes
from app.design.tokens import DARKROOM, PAPER
from app.inspector.timeline.overview import Overview
from app.inspector.timeline.plots import Plots, round_up
from app.player.player import Player
from app.state.run.replay import Frame
from tests.app.inspector.made_up import STEPS, Recorded, run


@pytest.fixture
def parts(qtbot):
    player = Player()
    overview = Overview(player, player)
    plots = Plots(player, overview)
    themes.publish(DARKROOM)
    qtbot.addWidget(plots)
    plots.resize(700, 360)
    plots.show()
    player.open(Recorded(run()))
    overview.finish()
    plots.draw()
    return SimpleNamespace(player=player, overview=overview, plots=plots, sheet=plots.sheet)


def pixels(widget) -> QImage:
    return widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


def lines(plots: Plots) -> list[list[tuple[list[float], list[float]]]]:
    """The points of every line, by row, without the gaps between blocks."""
    found = []
    for row in plots._rows:
        curves = []
        for item in row.listDataItems():
            keep = ~np.isnan(item.yData)
            curves.append((item.xData[keep].tolist(), item.yData[keep].tolist()))
        found.append(curves)
    return found


def test_lines_are_the_figures(parts):
    (entropy,), (accepted, changes, settled), (previous, final), _ = lines(parts.plots)
    blocks = [parts.overview[block] for block in range(2)]
    for curve, name in (
        (entropy, "mean_entropy"),
        (accepted, "accepted"),
        (changes, "changes"),
        (settled, "order.counts"),
        (previous, "kl_to_previous"),
        (final, "kl_to_final"),
    ):
        assert curve[0] == [0, 1, 2, 3, 4, 5, 6, 7]
        wanted = np.concatenate([attrgetter(name)(figures) for figures in blocks])
        assert curve[1] == pytest.approx(wanted.tolist())


def test_one_block_alone(parts, qtbot):
    parts.player.go(8)
    qtbot.mouseClick(parts.plots.one, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: parts.plots._block == 1)
    ((entropy,), *_) = lines(parts.plots)
    assert entropy[0] == [0, 1, 2, 3]
    assert entropy[1] == pytest.approx(parts.overview[1].mean_entropy.tolist())
    assert parts.plots.x_of(Frame(1, 0)) == 0
    assert parts.plots.place_at(0) == 7
    parts.player.go(2)  # the other block
    qtbot.waitUntil(lambda: parts.plots._block == 0)


def test_frames_stand_at_their_steps(parts):
    plots = parts.plots
    wanted = [-0.5, 0, 1, 2, 3, 3.5, 3.5, 4, 5, 6, 7, 7.5]
    assert [plots.x_of(frame) for frame in parts.player.replay.frames] == wanted
    places = {0: 1, 3: 4, 4: 7, 7: 10, -3: 1, 99: 10}
    assert {x: plots.place_at(x) for x in places} == places


def test_a_click_goes_there(parts, qtbot):
    sheet = parts.sheet
    for place in (1, 3, 8, 10):
        x = sheet.pixel(parts.plots.x_of(parts.player.replay.frames[place]))
        qtbot.mouseClick(sheet, Qt.MouseButton.LeftButton, pos=QPoint(round(x), 60))
        assert parts.player.place == place


@pytest.mark.parametrize("theme", [DARKROOM, PAPER], ids=lambda theme: theme.name)
def test_the_mark_is_at_the_frame_and_nowhere_else(parts, theme):
    themes.publish(theme)
    parts.plots.draw()
    sheet = parts.sheet
    middle = round(sheet._areas[0].center().y())

    def marked(image: QImage, place: int) -> bool:
        x = round(sheet.pixel(parts.plots.x_of(parts.player.replay.frames[place])))
        return any(image.pixelColor(x + by, middle) == QColor(theme.accent) for by in (-1, 0))

    for place in (2, 9, 4):
        parts.player.go(place)
        image = pixels(sheet)
        assert [other for other in (2, 4, 9) if marked(image, other)] == [place]


def test_moving_the_mark_draws_no_plot(parts, monkeypatch):
    drawn: list[bool] = []
    monkeypatch.setattr(parts.sheet, "draw", lambda *_: drawn.append(True))
    for place in range(12):
        parts.player.go(place)
        parts.plots.grab()
    assert drawn == []


def test_the_mark_of_a_live_run_stays_in_the_plots(parts):
    parts.sheet.set_mark(1000)  # a step that is not drawn yet
    assert parts.sheet._mark == parts.sheet._areas[0].right()


def test_where_nothing_was_recorded_it_says_so(parts):
    assert parts.plots.missing.text() == ""
    parts.player.open(Recorded(run(top=False)))
    parts.plots.draw()
    assert parts.plots.missing.text() == "0 of 2 blocks read"
    parts.overview.finish()
    parts.plots.draw()
    assert parts.plots.missing.text() == "KL is missing: the likeliest tokens were not recorded"
    assert lines(parts.plots)[2] == []


def test_words_of_a_step(parts):
    assert parts.plots.words_at(3) == [
        "Block 1, step 3",
        "Mean entropy: 0.333 nats",
        "Accepted: 4 of 24",
        "Best guess changed: 0",
        f"KL to the step before: {parts.overview[0].kl_to_previous[2]:.3f} nats or more",
        f"KL to the last step: {parts.overview[0].kl_to_final[2]:.3f} nats or more",
        "0 cells settle",
    ]
    assert parts.plots.words_at(1)[0] == "Block 1, step 1"


def test_padding_enters_no_plot(parts):
    parts.player.open(Recorded(run(1, text_length=12)))
    parts.overview.finish()
    parts.plots.draw()
    (entropy,) = lines(parts.plots)[0]
    assert entropy[1][0] == pytest.approx(np.linspace(0, 2, 24)[:12].mean())
    assert len(entropy[0]) == STEPS


def test_without_a_run_there_is_nothing(parts):
    parts.player.open(None)
    parts.plots.draw()
    assert parts.plots.place_at(1) is None
    parts.plots.grab()


def test_scales_end_at_round_numbers():
    assert [round_up(value) for value in (0, 0.03, 1, 1.2, 7, 256, 0.5)] == pytest.approx([1, 0.05, 1, 2, 10, 500, 0.5])

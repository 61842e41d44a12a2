"""The plots: their lines, and a step on them."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt

from app.inspector.tabs import Plots, round_up
from app.player.player import Player
from tests.app.canvas.pointing import shown
from tests.app.inspector.made_up import Recorded, run


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

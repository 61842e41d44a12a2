"""Measured influence: asking for it, the map of what moved, and the scale it is shown on."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from app.design import themes
from app.design.tokens import color, entropy_color
from app.inspector.forks.panel import TokenChoice
from app.inspector.influence.view import InfluenceView, ShownInfluence
from app.inspector.words import in_nats
from app.player.player import Player
from tests.app.canvas.pointing import THEMES, middle, move, shown
from tests.app.inspector import made_up
from tests.app.inspector.made_up import SHORT, short_run

KL = np.array([0.0, 9.0, 0.02, 0.5, 0.001, 0.0])


@pytest.fixture
def player(player: Player) -> Player:
    player.open(made_up.Recorded(short_run(2)), 2)
    return player


@pytest.fixture
def choice(qtbot, player) -> TokenChoice:
    choice = TokenChoice(player)
    qtbot.addWidget(choice)
    return choice


@pytest.fixture
def influence(qtbot, player, choice) -> InfluenceView:
    return shown(qtbot, InfluenceView(player, choice), 480, 600)


def test_asking_with_a_recorded_candidate_or_text(influence, choice, player, qtbot):
    player.select(2)
    tokens = [choice.itemData(place) for place in range(choice.count())]
    now = int(player.snapshot.tokens(calm=True)[2])
    choice.setCurrentIndex(tokens.index(now))
    assert influence.reason.text() == "This token stands there already; choose another one."
    assert not influence.measure.isEnabled()
    other = next(token for token in tokens if token != now)
    choice.setCurrentIndex(tokens.index(other))
    assert not influence.reason.isVisible()
    with qtbot.waitSignal(influence.asked) as asked:
        qtbot.mouseClick(influence.measure, Qt.MouseButton.LeftButton)
    assert asked.args == [2, other]
    choice.setEditText(" x")
    with qtbot.waitSignal(influence.asked_text) as asked:
        influence.measure.click()
    assert asked.args == [2, " x"]
    influence.measure.setFocus()
    influence.set_busy(True)
    assert influence.measure.hasFocus()  # it stays where the work is
    with qtbot.assertNotEmitted(influence.asked_text):
        influence.measure.click()
    influence.show_problem("That is two tokens; type one.")
    assert influence.problem.isVisible()
    assert influence.measure.isEnabled()


def test_a_measurement_is_shown_and_linked(influence, player, qtbot):
    player.select(1)
    influence.show_influence(1, 5, 6, KL)
    assert influence.what.text() == (
        "Position 1 changed from 'f' to 'g', block 1, step 2. Position 3 changes most, by 0.500 nats. "
        "3 cells change by 0.001 nats or more."
    )
    assert "no self-conditioning" in influence.how.text()
    move(influence.map, middle(influence.map, 3))
    assert player.hover == 3
    qtbot.mouseClick(influence.map, Qt.MouseButton.LeftButton, pos=middle(influence.map, 3))
    assert player.selection == 3
    qtbot.keyClick(influence.map, Qt.Key.Key_Left, Qt.KeyboardModifier.ControlModifier)
    assert player.selection == 2
    assert influence.map.cell_text(1)[-1] == "Its token was changed"
    assert influence.map.cell_text(3)[-1] == "Changes by 0.500 nats"
    assert influence.map.marks.tolist() == [False, True, *[False] * 4]
    influence.show_influence(1, 5, 5, np.full(SHORT, 0.0009))
    said = "Nothing depends on this token: no other cell changes by 0.001 nats or more."
    assert influence.what.text().endswith(said)


@THEMES
def test_the_map_of_influence_is_coloured(influence, player, theme):
    themes.publish(theme)
    influence.show_influence(1, 5, 6, KL)
    player.select(-1)
    image = influence.map.grab().toImage()
    for place, shade in ((0, color(theme.surface_sunken)), (3, entropy_color(1.0, theme))):
        x, y, _, _ = influence.map.grid.rect_of(place)
        assert QColor(image.pixel(x + 1, y + 1)) == shade


def test_the_scale_is_logarithmic_and_leaves_the_changed_position_out():
    found = ShownInfluence(1, 5, 6, np.array([0.0, 90.0, 1e-3, 1e-2, 1.0]))
    assert (found.most, found.count) == (1.0, 3)
    assert found.shares().tolist() == pytest.approx([np.nan, np.nan, 0, 1 / 3, 1], nan_ok=True)
    assert ShownInfluence(1, 5, 5, np.zeros(6)).most == 0.0


def test_figures_of_any_size_are_read():
    assert [in_nats(value) for value in (0.0, 0.5, 340.0, 3.4e-7)] == ["0.000", "0.500", "340", "3.4 × 10⁻⁷"]

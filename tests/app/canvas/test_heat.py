"""Figures of cells as colours on the canvas."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtGui import QColor

from app.canvas.heat import NONE, Heat, places
from app.canvas.view import CanvasView
from app.design import themes
from app.design.tokens import entropy_color
from app.state.run.canvas import BlockState
from tests.app.canvas.pointing import THEMES, pixels

LENGTH = 8


def heat_of(*shares: float, **changes) -> Heat:
    return Heat(np.array(shares, dtype=np.float32), **({"name": "doubt", "low": "0", "high": "1 nat"} | changes))


@pytest.fixture
def view(qtbot) -> CanvasView:
    made = CanvasView()
    qtbot.addWidget(made)
    made.set_piece(lambda token: chr(97 + token % 26))
    made.set_block(BlockState(0, np.arange(LENGTH, dtype=np.int32), np.zeros(LENGTH, dtype=np.bool_)))
    made.resize(500, made.heightForWidth(500))
    return made


def ground(view: CanvasView, index: int) -> QColor:
    x, y, w, _ = view.grid.rect_of(index)
    return pixels(view).pixelColor(x + w - 2, y + 2)


def test_places_on_the_ramp():
    assert places(np.array([0, 0.5, 1, 2, -1, np.nan], np.float32), 64) == [0, 32, 64, 64, 0, NONE]


@THEMES
def test_cells_take_the_colour_of_their_share(view, theme):
    themes.publish(theme)
    view.set_heat(heat_of(0, 0.25, 0.5, 0.75, 1, np.nan, np.nan, 0))
    for index, share in enumerate((0, 0.25, 0.5, 0.75, 1)):
        assert ground(view, index) == entropy_color(share, theme)
    assert ground(view, 5) == QColor(theme.surface_sunken)


def test_the_legend_comes_and_goes_with_it(view):
    plain = view.heightForWidth(500)
    view.set_heat(heat_of(*[0.5] * LENGTH))
    assert view.heightForWidth(500) > plain
    view.set_heat(None)
    assert view.heightForWidth(500) == plain


def test_same_figures_are_the_same_picture():
    one, other = heat_of(0, np.nan), heat_of(0, np.nan)
    assert one.same_as(other)
    assert not one.same_as(heat_of(0, 0))
    assert not one.same_as(heat_of(0, np.nan, high="2 nats"))
    assert not one.same_as(None)

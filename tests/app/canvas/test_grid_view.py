"""Every grid of cells, by a grid of nine letters that is neither a canvas nor a board."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from PySide6.QtCore import QAbstractAnimation, QEvent, QPoint, QRect, Qt
from PySide6.QtGui import QColor, QHelpEvent, QPainter
from PySide6.QtWidgets import QToolTip
from pytestqt.qtbot import QtBot

from app.canvas.geometry import Rect
from app.canvas.grid_view import GridView
from app.design import motion
from app.state.run.canvas import CellState
from tests.app.canvas.pointing import move, shown

SIDE = 40


@dataclass(frozen=True)
class Letters:
    """Three by three."""

    count: int = 9
    columns: int = 3

    def rect_of(self, index: int) -> Rect:
        return Rect(index % 3 * SIDE, index // 3 * SIDE, SIDE, SIDE)

    def cell_at(self, x: float, y: float) -> int:
        column, row = int(x // SIDE), int(y // SIDE)
        return 3 * row + column if 0 <= column < 3 and 0 <= row < 3 else -1


class LetterView(GridView):
    @property
    def grid(self) -> Letters:
        return Letters()

    def cell_name(self, index: int) -> str:
        return "abcdefghi"[index]

    def cell_value(self, index: int) -> str:
        return self.cell_name(index).upper()

    def cell_details(self, index: int) -> list[str]:
        return [f"<{index}>", "a letter"]

    def _paint(self, painter: QPainter, area: QRect) -> None:
        painter.fillRect(area, QColor.fromRgbF(self._tint, 0.0, 0.0))


@pytest.fixture
def view(qtbot: QtBot) -> LetterView:
    return shown(qtbot, LetterView(), 3 * SIDE, 3 * SIDE)


def test_pointing_and_selecting(view: LetterView, qtbot: QtBot) -> None:
    hovered: list[int] = []
    selected: list[int] = []
    view.cellHovered.connect(hovered.append)
    view.cellSelected.connect(selected.append)
    for x, y in ((50, 10), (52, 12), (10, 90), (500, 10)):
        move(view, QPoint(x, y))
    view.leaveEvent(QEvent(QEvent.Type.Leave))
    assert hovered == [1, 6, -1]
    qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(50, 50))
    qtbot.mouseClick(view, Qt.MouseButton.RightButton, pos=QPoint(10, 10))
    view.selected = 8
    view.selected = 9  # outside
    assert selected == [4, 8, -1]


def test_a_tool_tip_has_a_cells_words_as_they_are(view: LetterView) -> None:
    view.event(QHelpEvent(QEvent.Type.ToolTip, QPoint(10, 10), view.mapToGlobal(QPoint(10, 10))))
    assert QToolTip.text() == "a\n<0>\na letter"
    QToolTip.hideText()


def test_a_tint_fades_unless_motion_is_reduced(view: LetterView, qtbot: QtBot) -> None:
    fade = view.findChild(QAbstractAnimation)
    view._start_fade({})
    assert fade.state() == QAbstractAnimation.State.Stopped
    view._start_fade({4: CellState.ACCEPTED})
    assert view.grab().toImage().pixelColor(5, 5).red() > 0
    qtbot.waitUntil(lambda: fade.state() == QAbstractAnimation.State.Stopped)
    assert view.grab().toImage().pixelColor(5, 5).red() == 0
    view._start_fade({4: CellState.ACCEPTED})
    motion.set_reduced(True)
    assert fade.state() == QAbstractAnimation.State.Stopped
    assert view.grab().toImage().pixelColor(5, 5).red() == 0

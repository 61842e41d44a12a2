"""The mouse on a grid of cells, and how a widget looks."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QImage, QMouseEvent
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.design.tokens import DARKROOM, PAPER

THEMES = pytest.mark.parametrize("theme", [DARKROOM, PAPER], ids=lambda theme: theme.name)
W = TypeVar("W", bound=QWidget)


def shown(qtbot: QtBot, widget: W, width: int, height: int) -> W:
    qtbot.addWidget(widget)
    widget.resize(width, height)
    widget.show()
    return widget


def middle(view: Any, cell: int) -> QPoint:
    """The middle of a cell of a grid."""
    return QRect(*view.grid.rect_of(cell)).center()


def move(widget: Any, point: QPoint) -> None:
    """Moves the mouse, which a test without a window system cannot."""
    none, where = Qt.MouseButton.NoButton, QPointF(point)
    widget.mouseMoveEvent(QMouseEvent(QEvent.Type.MouseMove, where, where, none, none, Qt.KeyboardModifier.NoModifier))


def pixels(widget: QWidget) -> QImage:
    return widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)

"""Stores and restores the window's position and size, within the available screens."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRect, QSettings, QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMainWindow, QStyle

from app.settings import store

USUAL = QSize(1280, 800)
LEAST = QSize(640, 480)


def restore(window: QMainWindow, settings: QSettings) -> None:
    """Gives a window its stored position and size, or the default size at a first start."""
    title = window.style().pixelMetric(QStyle.PixelMetric.PM_TitleBarHeight, None, window)
    screens = [screen.availableGeometry().adjusted(0, 0, 0, -title) for screen in QGuiApplication.screens()]
    left, is_maximized = store.read_window(settings)
    place = fitted(QRect(screens[0].topLeft(), USUAL) if left is None else QRect(*left), screens)
    window.setMinimumSize(LEAST.boundedTo(place.size()))
    window.resize(place.size())
    if left is not None:  # the desktop chooses the position of a first window
        window.move(place.topLeft())
    if is_maximized:
        window.setWindowState(Qt.WindowState.WindowMaximized)


def note(window: QMainWindow, settings: QSettings) -> None:
    """Stores the position and size of a window; if it is maximized, those of its normal state."""
    is_maximized = window.isMaximized()
    place = window.normalGeometry() if is_maximized else QRect(window.pos(), window.size())
    if place.isValid():
        store.write_window(settings, (place.x(), place.y(), place.width(), place.height()), is_maximized)


def fitted(place: QRect, screens: Sequence[QRect]) -> QRect:
    """Fits a rectangle into the screen that contains most of it, or else the first; no larger than that screen."""

    def shared(screen: QRect) -> int:
        common = screen.intersected(place)
        return common.width() * common.height() if common.isValid() else 0

    screen = max(screens, key=shared)
    size = place.size().boundedTo(screen.size())
    x = min(max(place.x(), screen.x()), screen.x() + screen.width() - size.width())
    y = min(max(place.y(), screen.y()), screen.y() + screen.height() - size.height())
    return QRect(QPoint(x, y), size)

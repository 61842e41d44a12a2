"""The whole guided minute in the real window with the real model: by keys, and by the user's own clicks."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.inspector.export_dialog import ExportDialog
from app.inspector.guide.guide import Guide
from app.inspector.guide.scene import CELL, COUNTED
from app.window.main_window import MainWindow
from engine import MINI
from engine.catalog import SMALL

MAX_MS = 60_000
LEFT = Qt.MouseButton.LeftButton


def at(qtbot: QtBot, guide: Guide, place: int) -> None:
    qtbot.waitUntil(lambda: guide.course.place == place, timeout=MAX_MS)


def close_export(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: window.findChild(ExportDialog) is not None)
    dialog = window.findChild(ExportDialog)
    assert dialog is not None
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    window.activateWindow()  # the window system's part, without one


def has_figures(guide: Guide) -> bool:
    """Says if the card has the figures of the changed run."""
    said = guide.card.sentence.text()
    return said.startswith("With the pin it took ") and " not 48, and 0 other" not in said


def walk_by_keys(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.keyClick(window, Qt.Key.Key_F1, Qt.KeyboardModifier.ShiftModifier)
    guide = window.pages.inspector().guide()
    for place in range(COUNTED):
        at(qtbot, guide, place)
        qtbot.waitUntil(guide.card.next.hasFocus)
        if place == COUNTED - 1:
            qtbot.waitUntil(lambda: has_figures(guide))
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Space)
        if place == 0:
            qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Space)  # skips to the end of the run
    close_export(qtbot, window)
    at(qtbot, guide, COUNTED)
    qtbot.waitUntil(guide.card.next.hasFocus)
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Space)
    assert not guide.is_on
    assert window.pages.current is window.pages.chat()
    assert window.pages.chat().page.composer.edit.hasFocus()
    assert window.context.slot.present == SMALL  # which the run needed


def walk_by_clicks(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.mouseClick(window.pages.chat().page.welcome.guide, LEFT)
    inspector = window.pages.inspector()
    page, guide = inspector.page, inspector.guide()
    qtbot.mouseClick(page.transport.buttons["last"], LEFT)
    at(qtbot, guide, 1)
    board = page.canvas.board
    cell: QPoint = QRect(*board.grid.rect_of(CELL)).center()
    qtbot.mouseClick(board, LEFT, pos=cell)
    at(qtbot, guide, 2)
    qtbot.mouseClick(page.captions.back, LEFT)
    at(qtbot, guide, 3)
    qtbot.mouseClick(page.change.forks.pin, LEFT)
    at(qtbot, guide, 4)
    qtbot.mouseClick(page.change.forks.run, LEFT)
    at(qtbot, guide, 5)
    qtbot.waitUntil(lambda: has_figures(guide))
    trace = page.player.trace
    assert trace is not None
    assert trace.header.changes[-1].pinned[0][0] == CELL
    qtbot.mouseClick(page.export_button, LEFT)
    close_export(qtbot, window)
    at(qtbot, guide, COUNTED)
    guide.card.leave.click()
    assert page.player.trace is None


def test_the_guided_minute_by_keys_and_by_the_user_s_own_clicks(
    qtbot: QtBot, window_with: Callable[[str], MainWindow]
) -> None:
    window = window_with(MINI)
    window.resize(1280, 800)
    walk_by_keys(qtbot, window)
    walk_by_clicks(qtbot, window)

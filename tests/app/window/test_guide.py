"""The guided minute in the window: it begins when asked, can be left at each step, and loses nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.inspector.guide.guide import Guide
from app.inspector.guide.scene import CELL
from app.player.player import NOTHING
from app.window.main_window import MainWindow
from engine import MINI, gallery

Open = Callable[..., MainWindow]
CONTINUE = 4  # place of the step that needs a model


@pytest.fixture
def window(open_window: Open) -> MainWindow:
    made = open_window(MINI)
    made.resize(1280, 800)
    return made


def begin(window: MainWindow) -> Guide:
    window.pages.chat().page.welcome.guide.click()
    return window.pages.inspector().guide()


def go_on(qtbot: QtBot, guide: Guide, place: int) -> None:
    """Presses Next until the step at ``place``."""
    while guide.course.place < place:
        before = guide.course.place
        guide.card.next.click()
        if before == 0:
            guide.card.next.click()  # skips the rest of the playing
        qtbot.waitUntil(lambda before=before: guide.course.place > before)  # type: ignore[misc]


@pytest.mark.parametrize(("place", "by_key"), [(0, False), (2, True)])
def test_leaving_brings_back_the_page(qtbot: QtBot, window: MainWindow, place: int, by_key: bool) -> None:
    guide = begin(window)
    go_on(qtbot, guide, place)
    page = window.pages.inspector().page
    assert guide.card.isVisible()
    if by_key:
        page.canvas.board.setFocus()  # which takes Esc for its selection otherwise
        qtbot.keyClick(page.canvas.board, Qt.Key.Key_Escape)
    else:
        guide.card.leave.click()
    assert not guide.is_on
    assert window.pages.current is window.pages.chat()
    assert page.player.trace is None
    assert guide.card.isHidden()
    assert guide.ring.isHidden()


def test_an_open_run_comes_back_at_its_step_and_cell_and_another_run_ends_it(qtbot: QtBot, window: MainWindow) -> None:
    inspector = window.pages.inspector()
    player = inspector.page.player
    hard, other = (next(one.path for one in gallery() if one.path.stem == name) for name in ("sudoku-hard", "reverse"))
    inspector.open_key(str(hard), 5)
    player.select(12)
    guide = begin(window)
    go_on(qtbot, guide, 2)
    guide.leave()
    assert player.trace is not None
    assert (player.trace.path, player.place, player.selection) == (hard, 5, 12)
    begin(window)
    inspector.open_key(str(other))
    qtbot.waitUntil(lambda: not guide.is_on)
    assert player.trace.path == other
    assert guide.card.isHidden()


def test_without_its_model_it_says_why_and_goes_on(
    qtbot: QtBot, window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.inspector.continuations.Continuations.needed", lambda _self: None)  # it is not installed
    guide = begin(window)
    go_on(qtbot, guide, CONTINUE)
    assert guide.card.sentence.text() == (
        "This run is by Safelight Sudoku; load that model to change it. Next goes on without it."
    )
    guide.card.next.click()
    assert guide.course.place == CONTINUE + 1
    assert guide.card.sentence.text() == "Export it as a film, a picture or a web page."


def test_back_undoes_what_a_step_did(qtbot: QtBot, window: MainWindow) -> None:
    guide = begin(window)
    page = window.pages.inspector().page
    go_on(qtbot, guide, CONTINUE)
    assert page.change.forks.has_pin
    guide.card.back.click()
    assert not page.change.forks.has_pin
    guide.card.back.click()
    guide.card.back.click()
    assert page.player.selection == NOTHING
    qtbot.wait(20)  # it does not go on by itself
    assert guide.course.place == 1
    page.canvas.board.select_position(CELL)
    page.player.select(CELL)  # by the user
    qtbot.waitUntil(lambda: guide.course.place == 2)

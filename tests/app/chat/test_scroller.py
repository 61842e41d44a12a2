"""Long columns: few widgets, and nothing in sight moves when a guess is set right."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.chat.messages.heights import Heights
from app.chat.messages.scroller import FEW_WIDGETS, Scroller

GUESS = 100


class Part(QWidget):
    """A part of a known height with one button."""

    def __init__(self, name: int, height: int) -> None:
        super().__init__()
        self.name = name
        self.wanted = height
        self.button = QPushButton(str(name))
        column = QVBoxLayout(self)
        column.addWidget(self.button)
        column.addStretch(1)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, _width: int) -> int:
        return self.wanted

    def grow(self, height: int) -> None:
        self.wanted = height
        self.updateGeometry()


def real_height(name: int) -> int:
    return 60 + 37 * (name % 5)


@pytest.fixture
def scroller(qtbot: QtBot) -> Scroller:
    made = Scroller(
        lambda name: Part(int(str(name)), real_height(int(str(name)))),
        lambda _name, _width: GUESS,
        lambda view: [view.button] if isinstance(view, Part) else [],
        lambda: 400,
    )
    qtbot.addWidget(made)
    made.resize(500, 400)
    made.show()
    return made


def tops(scroller: Scroller) -> dict[int, int]:
    """Returns the tops of the parts in sight, on the screen."""
    page = scroller.viewport().height()
    found = {}
    for view in scroller.views.values():
        assert isinstance(view, Part)
        y = view.mapTo(scroller.viewport(), view.rect().topLeft()).y()
        if -view.height() < y < page:
            found[view.name] = y
    return found


def idle(qtbot: QtBot, scroller: Scroller) -> None:
    qtbot.waitUntil(lambda: scroller._next_near() is None and not scroller._idle.isActive())


def test_heights_find_their_places() -> None:
    heights = Heights([10, 20, 30])
    assert (heights.total, heights.top(2)) == (60, 30)
    assert [heights.at(y) for y in (-5, 0, 9, 10, 29, 30, 99)] == [0, 0, 0, 1, 1, 2, 2]
    assert list(heights.between(5, 31)) == [0, 1, 2]
    assert list(heights.between(10, 30)) == [1]
    assert heights.set(1, 25)
    assert not heights.set(1, 25)
    assert heights.top(2) == 35
    assert list(Heights().between(0, 100)) == []


def test_only_what_is_near_has_widgets(qtbot: QtBot, scroller: Scroller) -> None:
    scroller.set_items(range(200), follow=True)
    assert scroller._at_end
    assert set(tops(scroller)) <= set(scroller.views)
    assert 199 in scroller.views
    idle(qtbot, scroller)
    assert len(scroller.views) < 40
    bar = scroller.verticalScrollBar()
    for value in range(bar.maximum(), 0, -900):
        bar.setValue(value)
        idle(qtbot, scroller)
    assert len(scroller.views) <= max(40, FEW_WIDGETS)
    assert 199 in scroller.views  # the last part always has its widget


def test_a_part_that_grows_above_moves_nothing_in_sight(qtbot: QtBot, scroller: Scroller) -> None:
    scroller.set_items(range(60), follow=False)
    bar = scroller.verticalScrollBar()
    bar.setValue(2000)
    idle(qtbot, scroller)
    before = tops(scroller)
    above = max(name for name in scroller.views if isinstance(name, int) and name < min(before))
    part = scroller.view(above)
    assert isinstance(part, Part)
    part.grow(part.wanted + 333)
    value = bar.value()
    qtbot.waitUntil(lambda: bar.value() == value + 333)
    assert tops(scroller) == before


def test_the_end_stays_in_sight_while_the_last_part_grows(qtbot: QtBot, scroller: Scroller) -> None:
    scroller.set_items(range(20), follow=True)
    bar = scroller.verticalScrollBar()
    part = scroller.view(19)
    assert isinstance(part, Part)
    part.grow(900)
    qtbot.waitUntil(lambda: part.height() == 900)
    assert bar.value() == bar.maximum()
    bar.setValue(bar.maximum() - 300)
    value = bar.value()
    part.grow(1200)
    qtbot.waitUntil(lambda: part.height() == 1200)
    assert bar.value() == value  # whoever scrolled away is not pulled back


def test_settling_into_less_moves_nothing_that_is_read(qtbot: QtBot, scroller: Scroller) -> None:
    scroller.set_items(range(20), follow=True)
    part = scroller.view(19)
    assert isinstance(part, Part)
    part.grow(300)
    qtbot.waitUntil(lambda: part.height() == 300)
    before = tops(scroller)
    held = scroller.hold()
    part.wanted = 80
    scroller.settle(held)
    assert tops(scroller) == before
    assert scroller._slack == 220
    bar = scroller.verticalScrollBar()
    bar.setValue(bar.value() - 150)
    assert scroller._slack == 70  # what has gone out of sight does not come back
    scroller.follow()
    assert scroller._slack == 0
    assert bar.value() == bar.maximum()


def test_parts_that_stay_keep_their_widgets_and_places(qtbot: QtBot, scroller: Scroller) -> None:
    scroller.set_items(range(30), follow=False)
    scroller.verticalScrollBar().setValue(700)
    idle(qtbot, scroller)
    before, views = tops(scroller), scroller.views
    scroller.set_items([*range(20), *range(100, 120)], follow=False)
    assert tops(scroller) == before
    assert all(scroller.view(name) is views[name] for name in before)


def test_tab_goes_through_parts_that_were_not_there(qtbot: QtBot, scroller: Scroller) -> None:
    scroller.set_items(range(60), follow=False)
    scroller.verticalScrollBar().setValue(0)
    scroller.activateWindow()
    first = scroller.view(0)
    assert isinstance(first, Part)
    first.button.setFocus()
    seen = []
    for _ in range(30):
        focus = QApplication.focusWidget()
        assert isinstance(focus, QPushButton)
        seen.append(int(focus.text()))
        qtbot.keyClick(focus, Qt.Key.Key_Tab)
    assert seen == list(range(30))

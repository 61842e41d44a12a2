"""The canvas for assistive technology."""

from __future__ import annotations

import gc

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QAccessible

from app.inspector.canvas.canvas import InspectorCanvas
from app.player.player import Player
from app.state.run.canvas import CellState
from tests.app.canvas.pointing import shown
from tests.app.inspector.made_up import LENGTH, Recorded, run

NAME, DESCRIPTION = QAccessible.Text.Name, QAccessible.Text.Description


@pytest.fixture
def canvas(qtbot) -> InspectorCanvas:
    player = Player()
    made = InspectorCanvas(player)
    player.setParent(made)
    shown(qtbot, made, 700, 400)
    player.open(Recorded(run(1)))
    player.go(3)
    return made


def test_a_table_of_cells_in_words(canvas):
    table = QAccessible.queryAccessibleInterface(canvas.view)
    assert table.role() == QAccessible.Role.Table
    assert table.text(NAME) == "Canvas at this step"
    assert "accepted" in table.text(DESCRIPTION)
    parent = table.parent()
    assert any(parent.child(place).role() == table.role() for place in range(parent.childCount()))
    assert table.childCount() == LENGTH
    view, columns = canvas.view, canvas.view.grid.columns
    for index in range(LENGTH):
        cell = table.child(index)
        assert cell.role() == QAccessible.Role.Cell
        assert table.indexOfChild(cell) == index
        state = {CellState.TAKEN_BACK: "taken back", CellState.SETTLED: "settled", CellState.NOISE: "noise"}
        shown = view.block.cell(index, False)
        token = repr(chr(97 + shown.token % 26))
        place = f"Row {index // columns + 1}, column {index % columns + 1}"
        assert cell.text(NAME) == f"{place}: {token}, {state[shown.state]}"
        middle = cell.rect().center()
        assert table.childAt(middle.x(), middle.y()) is cell
    assert "Taken back 1 time" in table.child(8).text(DESCRIPTION)
    assert table.child(LENGTH) is None
    assert table.child(-1) is None


def test_it_follows_the_frame_and_the_selection(canvas):
    table = QAccessible.queryAccessibleInterface(canvas.view)
    assert table.child(8).text(NAME).endswith("taken back")
    player = canvas.findChild(Player)
    player.go(0)
    assert table.child(8).text(NAME).endswith("noise")
    assert table.focusChild() is None
    player.select(8)
    assert table.focusChild() is table.child(8)
    assert table.child(8).state().selected
    assert not table.child(7).state().selected


@pytest.mark.usefixtures("qapp")
def test_what_was_handed_out_outlives_the_canvas():
    player = Player()
    canvas = InspectorCanvas(player)
    player.open(Recorded(run(1)))
    table = QAccessible.queryAccessibleInterface(canvas.view)
    cells = [table.child(place) for place in range(LENGTH)]
    ids = [QAccessible.uniqueId(cell) for cell in cells]
    assert len(set(ids)) == LENGTH
    player.open(None)
    assert (cells[0].isValid(), cells[0].text(NAME)) == (False, "")
    canvas.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
    assert QAccessible.accessibleInterface(ids[3]) is cells[3]
    assert (cells[3].isValid(), cells[3].text(NAME)) == (False, "")

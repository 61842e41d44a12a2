"""The inspector's page: opening, following, layers, keys, and parts that cannot be read."""

from __future__ import annotations

import gettext
import itertools

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QTabBar,
    QTabWidget,
    QWidget,
)

from app.design import themes
from app.design.stylesheet import chrome
from app.design.tokens import DARKROOM
from app.inspector.canvas.canvas import LAYERS, Seen, heat
from app.inspector.cell.history import CellHistory
from app.inspector.page import InspectorPage
from app.player.player import NOTHING
from app.state.run.replay import Frame
from app.system.i18n import use
from tests.app.canvas.pointing import THEMES, pixels
from tests.app.inspector.made_up import LENGTH, STEPS, Recorded, run
from tests.app.inspector.test_decisions_and_formats import trace_of
from tests.app.marked import Brackets, unmarked
from tests.engine.task_runs import structured
from tests.engine.traces import header


@pytest.fixture
def page(page: InspectorPage) -> InspectorPage:
    page.setStyleSheet(chrome(DARKROOM))
    page.open_trace(Recorded(run()))
    return page


def test_opening_shows_the_end_and_closing_goes_back_to_the_offers(page, qtbot):
    assert page.stack.currentWidget() is page.views
    assert page.player.frame == Frame(1, STEPS)
    assert page.title.text() == "Sort these"
    assert page.facts.text() == "made-up · seed 7 · blocks: 2, steps: 8"
    assert page.canvas.view.block.committed
    assert page.transport.frame.accessibleName() == "Block 2, stopped at the limit of 4 steps"
    page.player.go(2)
    assert page.transport.frame.text() == "Block 1, step 2 of 4, temperature 0.70"
    page.player.go(0)
    assert page.transport.frame.text() == "Block 1, noise before the first step"
    page.player.go(5)
    assert page.transport.frame.text() == "Block 1, finished after step 4: sure enough to stop"
    with qtbot.waitSignal(page.closed):
        qtbot.mouseClick(page.close_button, Qt.MouseButton.LeftButton)
    assert page.stack.currentWidget() is page.welcome
    assert page.player.trace is None
    assert page.canvas.view.block is None


def test_follows_a_running_run(page, qtbot):
    events = run()
    trace = Recorded([])
    page.follow_live(trace)
    assert "in progress" in page.facts.text()
    for count in range(1, len(events) + 1):
        trace.append(events[count - 1])
        page.refresh()
        page.refresh()  # for each event, and more
        qtbot.waitUntil(lambda: len(page.player.replay.frames) == len(trace.events))
        assert page.player.place == count - 1
        assert page.canvas.view.block.step == page.player.snapshot.step
    assert page.transport.timeline.maximum() == len(events) - 1
    assert "blocks: 2, steps: 8" in page.facts.text()
    page.overview.finish()
    assert page.overview[1].steps == STEPS


def test_a_part_that_cannot_be_read_says_so_and_the_rest_is_shown(page):
    page.open_trace(Recorded(run(), damaged=range(7, 12)))  # the second block cannot be read
    page.overview.finish()
    assert page.overview.complete
    assert page.notice.text() == "a part of the file is damaged"
    page.player.go(3)
    assert page.canvas.view.block.step == 2
    for place in range(len(page.player.replay.frames)):
        page.player.go(place)
        page.grab()
    trace = Recorded(run())
    trace.fail("The file ends in the middle of the run.")
    page.open_trace(trace)
    assert (page.notice.isVisible(), page.notice.text()) == (True, "The file ends in the middle of the run.")
    page.open_trace(Recorded(run()))
    assert not page.notice.isVisible()


@THEMES
def test_every_layer_looks_different_and_has_a_legend(page, theme):
    themes.publish(theme)
    page.player.go(3)  # where cells have been taken back
    seen = {}
    for layer in LAYERS:
        page.canvas.set_layer(layer)
        assert page.canvas.layers.currentData() == layer
        seen[layer] = pixels(page.canvas.view)
        assert (page.canvas.view.grid.bar is None) == (layer == "state")
    for one, other in itertools.combinations(LAYERS, 2):
        assert seen[one] != seen[other], (one, other)


def seen_at(page: InspectorPage, place: int) -> Seen:
    page.player.go(place)
    return Seen(page.player.block, page.player.frame.step, page.player.snapshot)


def test_layers_have_the_figures_of_the_text(page):
    shown = heat("entropy", seen_at(page, 1))
    assert shown.shares.tolist() == pytest.approx(np.linspace(0, 1, LENGTH).tolist(), abs=1e-6)
    assert shown.high == "2.00 nats (most in this block)"
    assert heat("entropy", seen_at(page, 2)).shares.max() == pytest.approx(0.5)
    assert np.isnan(heat("entropy", seen_at(page, 0)).shares).all()
    first = heat("settling", seen_at(page, 1)).shares
    assert np.isnan(first[10])
    assert first[0] == 0
    second = heat("settling", seen_at(page, 2))
    assert second.shares[10] == pytest.approx(1 / (STEPS - 1))
    assert second.words(10) == "Settled at step 2 of 4"
    page.open_trace(Recorded(run(1, text_length=20)))
    for layer in LAYERS[1:]:  # padding has no colour
        assert np.isnan(heat(layer, seen_at(page, STEPS + 1)).shares[20:]).all(), layer


def test_a_second_opinion_is_shown_in_layer_tip_and_history(page):
    page.open_trace(trace_of(header(16, 50), structured()))
    shares = np.linspace(0, 1, 16, dtype=np.float32)
    shares[0] = np.nan
    page.player.select(9)
    page.player.replay.opine({0: shares})
    page.show_opinion()
    assert page.player.frame.step == 3
    shown = heat("causal", seen_at(page, 4))
    np.testing.assert_array_equal(shown.shares[:14], 1 - shares[:14])
    assert (shown.low, shown.high) == ("100 %", "0 %")
    assert "Causal probability: 60.0%" in page.canvas.view.cell_text(9)
    assert not any("Causal" in line for line in page.canvas.view.cell_text(0))
    assert "Causal probability: 60.0 %." in page.findChild(CellHistory).sentence.text()
    assert heat("causal", seen_at(page, 2)).words(3) == "Not read causally"


def focusable(page: InspectorPage) -> list[QWidget]:
    """Lists what takes keys, but for what is typed in or gone through with the arrows."""
    taking = (QLineEdit, QAbstractSpinBox, QTabBar, QTabWidget)
    found = [one for one in page.findChildren(QWidget) if one.focusPolicy() != Qt.FocusPolicy.NoFocus]
    own = [one for one in found if one.window() is page and one.isVisible() and not isinstance(one, taking)]
    return [one for one in own if not (isinstance(one, QComboBox) and one.isEditable())]


def test_keys_work_wherever_the_keyboard_is(page, qtbot):
    page.player.select(4)
    reached = set()
    for place in range(page.side.count()):
        page.side.setCurrentIndex(place)
        for widget in focusable(page):
            page.player.go(2)
            if not widget.isEnabled():  # there is nothing to measure at this frame
                continue
            widget.setFocus()
            assert widget.hasFocus(), widget
            for key, wanted in ((Qt.Key.Key_Right, 3), (Qt.Key.Key_Home, 0)):
                qtbot.keyClick(widget, key)
                assert page.player.place == wanted, widget
            reached.add(type(widget).__name__)
    views = {"SpannedCanvas", "Timeline", "MapArea", "Curves", "BumpChart", "TextPane"}
    assert views | {"QPushButton", "ChoiceBox"} <= reached
    path = [(Qt.Key.Key_Left, 0), (Qt.Key.Key_End, 11), (Qt.Key.Key_Right, 11), (Qt.Key.Key_Left, 10)]
    for key, wanted in path:
        qtbot.keyClick(page, key)
        assert page.player.place == wanted, key
    page.player.go(1)
    page.player.select(8)
    for key, step in ((Qt.Key.Key_Right, 1), (Qt.Key.Key_Right, 2), (Qt.Key.Key_Left, 1)):
        qtbot.keyClick(page, key, Qt.KeyboardModifier.ShiftModifier)  # to the next change of the cell
        assert page.player.frame.step == step
    view = page.canvas.view
    qtbot.keyClick(view, Qt.Key.Key_Right, Qt.KeyboardModifier.ControlModifier)
    assert (page.player.selection, page.player.frame.step) == (9, 1)
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert (page.player.selection, page.player.frame.step) == (NOTHING, 1)


def test_space_is_left_to_a_button(page, qtbot):
    page.player.go(2)
    button = page.transport.buttons["on"]
    button.setFocus()
    qtbot.keyClick(button, Qt.Key.Key_Space)
    assert page.player.place == 3
    assert not page.player.is_playing


def test_a_narrow_page_puts_the_tabs_below_the_canvas(page):
    page.resize(700, 800)
    assert page.side.mapTo(page, QPoint()).y() > page.canvas.mapTo(page, QPoint()).y()
    assert page.side.width() == page.across.width()
    page.resize(1280, 800)
    assert page.side.mapTo(page, QPoint()).y() == page.canvas.mapTo(page, QPoint()).y()


def test_the_history_comes_with_a_cell_or_is_next_to_the_map(page):
    assert page.cell.map.isVisible()
    assert page.cell.hint.isVisible()
    assert not page.cell.history.isVisible()
    page.player.select(3)
    assert page.cell.history.isVisible()
    assert not page.cell.hint.isVisible()
    page.player.select(NOTHING)
    assert not page.cell.history.isVisible()
    page.resize(2200, 1000)
    assert page.cell.history.isVisible()
    assert page.cell.history.x() > page.cell.map.x()


def test_every_control_has_a_name_and_every_string_is_translated(qtbot):
    use(Brackets())
    try:
        page = InspectorPage()
        qtbot.addWidget(page)
        page.open_trace(Recorded(run()))
        page.overview.finish()
        own = (page.canvas, page.transport, page.cell, page.change, page.answer, page.welcome, page.open_button)
        found = [text for part in (*own, page.facts) for text in unmarked(part, ("made-up",))]
    finally:
        use(gettext.NullTranslations())
    assert found == []
    assert page.canvas.view.accessibleName()
    assert page.transport.timeline.accessibleName()
    for part in (page.canvas, page.transport, page.answer.plots):
        for control in part.findChildren(QWidget):
            if isinstance(control, QAbstractButton | QComboBox) and not control.objectName().startswith("qt_"):
                assert control.accessibleName(), control
                assert control.focusPolicy() & Qt.FocusPolicy.TabFocus, control

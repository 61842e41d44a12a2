"""The inspector: forks and what they were made from, a file that is no run, lines, and what the backend can do."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTreeWidgetItem
from pytestqt.qtbot import QtBot

from app.canvas.geometry import Geometry
from app.canvas.view import CanvasView
from app.context import AppContext
from app.export.run import Options, export
from app.inspector.controller import InspectorController
from app.sudoku.controller import SudokuController
from app.window.main_window import MainWindow
from engine import SUDOKU, Recording, gallery, open_trace
from engine.catalog import SMALL
from tests.fake_engine import FakeEngine

KEY = Qt.ItemDataRole.UserRole
Open = Callable[..., MainWindow]
OpenContext = Callable[..., AppContext]


@pytest.fixture
def window(qtbot: QtBot, open_window: Open) -> MainWindow:
    """A window with one answer, which is open in the inspector."""
    made = open_window()
    context = made.context
    assert context.model is not None
    context.apply_values()
    context.session.ask("hello", (), context.model)
    qtbot.waitUntil(lambda: context.session.active is None)
    made.pages.chat().commands.inspect(context.session.chat.turns[-1].answer, 0)
    return made


def fork(qtbot: QtBot, inspector: InspectorController, seed: int) -> None:
    inspector.forks.seed.setValue(seed)
    inspector.forks.run.click()
    assert inspector.continuations.is_forking
    qtbot.waitUntil(lambda: not inspector.continuations.is_forking)


def chain(inspector: InspectorController) -> list[str]:
    """Returns the tree's items from the root to the open run."""
    found: list[str] = []
    item: QTreeWidgetItem | None = inspector.forks.tree.currentItem()
    while item is not None:
        found.insert(0, item.text(0))
        item = item.parent()
    return found


def test_a_fork_of_a_fork_keeps_its_chain_when_what_it_came_from_is_closed(qtbot: QtBot, window: MainWindow) -> None:
    inspector = window.pages.inspector()
    page = inspector.page
    page.player.go(2)
    fork(qtbot, inspector, 8)
    assert chain(inspector) == ["Hello", "Block 1, step 3: seed 8"]
    page.player.go(3)
    fork(qtbot, inspector, 9)
    whole = ["Hello", "Block 1, step 3: seed 8", "Block 1, step 4: seed 9"]
    assert chain(inspector) == whole
    newest = inspector.forks.tree.currentItem().data(0, KEY)
    page.close_button.click()
    window.context.session.open_new()
    inspector.open_key(newest)
    assert chain(inspector) == whole


def test_one_click_loads_the_model_of_the_run_and_forks(qtbot: QtBot, window: MainWindow) -> None:
    context, inspector = window.context, window.pages.inspector()
    assert context.model is not None
    context.load(SUDOKU)
    qtbot.waitUntil(lambda: context.model is not None)
    run = inspector.forks.run
    first_comes = "Small models will be loaded first."
    assert inspector.forks.reason.text() == first_comes
    change = inspector.page.change
    assert all(made.toolTip() == first_comes for made in (run, change.influence.measure, change.forks.spans.run))
    assert run.isEnabled()
    inspector.forks.seed.setValue(8)
    run.click()
    assert not run.isEnabled()
    player = inspector.page.player
    qtbot.waitUntil(lambda: player.trace is not None and player.trace.header.changes != ())
    qtbot.waitUntil(lambda: not inspector.continuations.is_forking)
    assert context.slot.present == SMALL
    assert run.text() == "Run with this change"
    assert inspector.forks.reason.text() == ""


def test_a_damaged_file_is_said(qtbot: QtBot, open_context: OpenContext, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.sltrace"
    foreign.write_bytes(b"no trace at all")
    inspector = InspectorController(open_context())
    qtbot.addWidget(inspector.widget)
    with qtbot.waitSignal(inspector._context.said) as said:
        inspector.open_key(str(foreign))
    assert "foreign.sltrace" in said.args[0]


# ---------------------------------------------------------------- lines


def rows(view: CanvasView, trace: Recording) -> list[str]:
    """Returns the text of each row of a canvas, without end tokens."""
    grid, block = view.grid, view.block
    assert block is not None
    found = [""] * grid.rows
    for place, token in enumerate(block.tokens(calm=True).tolist()[: block.text_length]):
        found[grid.place_of(place)[0]] += trace.piece(token)
    return [row for row in found if row]


def test_a_times_table_keeps_its_lines(qtbot: QtBot, open_context: OpenContext, tmp_path: Path) -> None:
    trace = open_trace(next(one.path for one in gallery() if one.path.stem == "times-table"))
    inspector = InspectorController(open_context(None))
    qtbot.addWidget(inspector.widget)
    inspector.widget.resize(1280, 800)
    inspector.widget.show()
    inspector.inspect(trace, 0)
    player, view = inspector.page.player, inspector.widget.findChild(CanvasView, "inspector-canvas")
    replay = player.replay
    assert view is not None
    assert replay is not None
    laid_out: dict[int, set[Geometry]] = {}
    text: list[str] = []
    for place, frame in enumerate(replay.frames):
        player.go(place)
        laid_out.setdefault(frame.block, set()).add(view.grid)
        if place + 1 == len(replay.frames) or replay.frames[place + 1].block != frame.block:
            text += rows(view, trace)
    assert {len(grids) for grids in laid_out.values()} == {1}  # no cell moves from the first noise to the end
    assert "".join(text) == trace.text
    assert all(row.endswith("\n") for row in rows(view, trace)[:-1])

    list(export(trace, tmp_path / "run.html", Options("html")))
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    blocks = json.loads(found.group(1))["blocks"]
    starts = [sum(len(event.tokens) for event in trace.committed[:number]) for number in range(len(blocks))]
    ends = [start + end for start, block in zip(starts, blocks, strict=True) for end in block["lineEnds"]]
    assert ends == [place for place, letter in enumerate(trace.text) if letter == "\n"]


# ---------------------------------------------------------------- what the backend can do


REFUSED = "This cannot be done with Safelight Mini."


def inspect_a_run(qtbot: QtBot, context: AppContext) -> InspectorController:
    assert context.model is not None
    context.session.ask("hello", (), context.model)
    qtbot.waitUntil(lambda: context.session.active is None)
    inspector = InspectorController(context)
    qtbot.addWidget(inspector.widget)
    inspector.widget.show()
    inspector.inspect(context.session.chat.turns[-1].answer.trace, 0)
    return inspector


@pytest.mark.parametrize("able", [True, False])
def test_a_run_is_forked_and_measured_where_both_can_be_done(
    qtbot: QtBot, open_context: OpenContext, fake: FakeEngine, able: bool
) -> None:
    fake.able = dataclasses.replace(fake.able, forks=able, influence=able)
    inspector = inspect_a_run(qtbot, open_context())
    assert inspector.forks.run.isEnabled() == able
    assert inspector.forks.reason.text() == ("" if able else REFUSED)
    assert (inspector.page.change.influence.measure.toolTip() == REFUSED) == (not able)


def test_a_run_over_masks_is_forked_by_what_applies_to_it(
    qtbot: QtBot, open_context: OpenContext, fake: FakeEngine
) -> None:
    fake.decoders = ("masked_diffusion",)
    fake.able = dataclasses.replace(fake.able, influence=False, infill=False)
    inspector = inspect_a_run(qtbot, open_context())
    forks, page = inspector.forks, inspector.page
    source = page.player.trace
    assert source is not None
    page.show_view(3)
    assert forks.run.isEnabled()
    assert not forks.put.isVisibleTo(forks)
    shown = {name for name, box in forks.boxes.items() if box.isVisibleTo(forks)}
    assert shown == {"sampling_temperature", "accept_probability"}
    assert "block diffusion" in page.change.influence.measure.toolTip()
    page.player.go(len(source.entries))
    forks.seed.setValue(9)
    forks.run.click()
    assert "go to an earlier one" in forks.problem.text()
    page.player.go(1)
    forks.run.click()
    qtbot.waitUntil(lambda: not inspector.continuations.is_forking)
    assert forks.problem.text() == ""
    made = page.player.trace
    assert made is not None
    assert made.header.changes[-1].seed == 9
    assert inspector.compare.trace is source


def test_a_run_from_left_to_right_is_not_forked(qtbot: QtBot, open_context: OpenContext, fake: FakeEngine) -> None:
    fake.decoders = ("block_diffusion", "autoregressive")
    forks = inspect_a_run(qtbot, open_context()).forks
    assert not forks.run.isEnabled()
    assert "cannot be changed" in forks.reason.text()


@pytest.mark.parametrize("able", [True, False])
def test_a_puzzle_needs_steps_and_adapters_are_offered_where_there_can_be_some(
    qtbot: QtBot, open_context: OpenContext, fake: FakeEngine, able: bool
) -> None:
    fake.able = dataclasses.replace(fake.able, steps=able, adapters=able)
    controller: Any = SudokuController(open_context())
    qtbot.addWidget(controller.widget)
    controller.widget.show()
    column = controller.page.column
    assert ("no denoising steps" in column.reason.text()) == (not able)
    assert not column.solve.isEnabled()  # Mini was not trained for puzzles
    assert column.load.isVisible()
    assert column.adapter.isEnabled() == able

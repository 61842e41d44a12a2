"""Pages offer what the backend can do, whichever backend it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.inspector.controller import InspectorController
from app.sudoku.controller import SudokuController
from tests.fake_engine import FakeEngine

Open = Callable[..., AppContext]
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
    qtbot: QtBot, open_context: Open, fake: FakeEngine, able: bool
) -> None:
    fake.able = dataclasses.replace(fake.able, forks=able, influence=able)
    inspector = inspect_a_run(qtbot, open_context())
    assert inspector.forks.run.isEnabled() == able
    assert inspector.forks.reason.text() == ("" if able else REFUSED)
    assert (inspector.page.change.influence.measure.toolTip() == REFUSED) == (not able)


def test_a_run_over_masks_is_forked_by_what_applies_to_it(qtbot: QtBot, open_context: Open, fake: FakeEngine) -> None:
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


def test_a_run_from_left_to_right_is_not_forked(qtbot: QtBot, open_context: Open, fake: FakeEngine) -> None:
    fake.decoders = ("block_diffusion", "autoregressive")
    forks = inspect_a_run(qtbot, open_context()).forks
    assert not forks.run.isEnabled()
    assert "cannot be changed" in forks.reason.text()


@pytest.mark.parametrize("able", [True, False])
def test_a_puzzle_needs_steps_and_adapters_are_offered_where_there_can_be_some(
    qtbot: QtBot, open_context: Open, fake: FakeEngine, able: bool
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

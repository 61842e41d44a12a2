"""What the pages offer follows from what the backend can do, never from which one it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.context import INSPECTOR, SUDOKU
from app.window.main_window import MainWindow
from tests.fake_engine import FakeEngine

Open = Callable[..., MainWindow]


def opened(open_window: Open, fake: FakeEngine, **able: Any) -> MainWindow:
    fake.able = dataclasses.replace(fake.able, **able)
    return open_window()


def inspect_a_run(qtbot: QtBot, window: MainWindow) -> None:
    context = window.context
    assert context.model is not None
    context.session.ask("hello", (), context.model)
    qtbot.waitUntil(lambda: context.session.active is None)
    window.show_page(INSPECTOR)
    window.pages.chat().commands.inspect(context.session.chat.turns[-1].answer, 0)


def test_a_run_is_forked_and_measured_where_both_are_known(qtbot: QtBot, open_window: Open, fake: FakeEngine) -> None:
    window = opened(open_window, fake)
    inspect_a_run(qtbot, window)
    inspector = window.pages.inspector()
    assert inspector.forks.run.isEnabled()
    assert "cannot be done" not in inspector.page.change.influence.measure.toolTip()


def test_a_backend_without_forks_is_asked_for_none(qtbot: QtBot, open_window: Open, fake: FakeEngine) -> None:
    window = opened(open_window, fake, forks=False, influence=False)
    inspect_a_run(qtbot, window)
    inspector = window.pages.inspector()
    assert not inspector.forks.run.isEnabled()
    assert inspector.forks.reason.text() == "This cannot be done with Safelight Mini."
    assert inspector.page.change.influence.measure.toolTip() == "This cannot be done with Safelight Mini."


def test_a_run_over_masks_is_forked_by_what_applies_to_it(qtbot: QtBot, open_window: Open, fake: FakeEngine) -> None:
    fake.decoders = ("masked_diffusion",)
    window = opened(open_window, fake, influence=False, infill=False)
    inspect_a_run(qtbot, window)
    inspector = window.pages.inspector()
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
    assert forks.problem.text() == "The block ends with this step; go to an earlier one to change it."
    page.player.go(1)
    forks.run.click()
    qtbot.waitUntil(lambda: not inspector.continuations.is_forking)
    assert forks.problem.text() == ""
    made = page.player.trace
    assert made is not None
    assert made is not source
    assert made.header.changes[-1].seed == 9
    assert inspector.compare.trace is source


def test_a_run_from_left_to_right_is_not_forked(qtbot: QtBot, open_window: Open, fake: FakeEngine) -> None:
    fake.decoders = ("block_diffusion", "autoregressive")
    window = opened(open_window, fake)
    inspect_a_run(qtbot, window)
    forks = window.pages.inspector().forks
    assert not forks.run.isEnabled()
    assert forks.reason.text() == "Runs of this decoder cannot be changed. Ask again instead."


def test_a_backend_without_steps_is_given_no_puzzle(open_window: Open, fake: FakeEngine) -> None:
    window = opened(open_window, fake, steps=False)
    window.show_page(SUDOKU)
    column = window.pages["sudoku"].page.column
    assert column.reason.text().startswith("Safelight Mini has no denoising steps")
    assert (column.solve.isEnabled(), column.load.isVisible()) == (False, True)


@pytest.mark.parametrize("adapters", [False, True])
def test_adapters_are_offered_where_there_can_be_some(open_window: Open, fake: FakeEngine, adapters: bool) -> None:
    window = opened(open_window, fake, adapters=adapters)
    window.show_page(SUDOKU)
    assert window.pages["sudoku"].page.column.adapter.isEnabled() == adapters

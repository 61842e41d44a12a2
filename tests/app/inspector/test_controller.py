"""The inspector with a context and no window: it offers, opens and refuses runs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.context import INSPECTOR, AppContext
from app.inspector.controller import InspectorController, build
from app.inspector.page import CELL, CHANGE
from app.state.run.replay import NOISE, Frame
from engine.events import TextArrived
from engine.trace import Parent, Trace
from tests.app.canvas.pointing import shown
from tests.engine.traces import header, made_up, write

Open = Callable[..., InspectorController]


@pytest.fixture
def context(open_context: Callable[..., AppContext]) -> AppContext:
    made = open_context()
    made.folders.traces.mkdir(parents=True)
    return made


@pytest.fixture
def open_inspector(qtbot: QtBot, context: AppContext) -> Open:
    def open_one() -> InspectorController:
        made = build(context)
        shown(qtbot, made.widget, 1200, 800)
        made.enter()
        return made

    return open_one


def keep(context: AppContext, *names: str) -> list[Path]:
    """Runs in the user's folder, the first the newest."""
    paths = [context.folders.traces / f"{name}.sltrace" for name in names]
    for age, path in enumerate(paths):
        write(path, made_up(), header())
        os.utime(path, (1e9 - age, 1e9 - age))
    return paths


def offered(inspector: InspectorController, section: str = "Your runs") -> list[str]:
    offers = [card.offer for card in inspector.page.welcome.runs.cards]
    return [Path(offer.key).stem for offer in offers if offer.section == section]


def test_a_few_of_the_users_runs_come_first_and_the_others_at_a_click(
    qtbot: QtBot, context: AppContext, open_inspector: Open
) -> None:
    names = [f"run-{number}" for number in range(5)]
    keep(context, *names)
    inspector = open_inspector()
    cards = inspector.page.welcome.runs
    qtbot.waitUntil(lambda: any(made.text() == "All runs (5)" for made in cards.findChildren(QPushButton)))
    assert offered(inspector) == names[:4]
    assert [card.offer.section for card in cards.cards[:5]] == ["Your runs"] * 4 + ["Gallery"]
    next(made for made in cards.findChildren(QPushButton) if made.text() == "All runs (5)").click()
    assert offered(inspector) == names


def test_noise_or_best_guesses_are_one_choice_for_all_pages_and_kept(
    context: AppContext, open_inspector: Open, tmp_path: Path
) -> None:
    inspector = open_inspector()
    inspector.inspect(write(tmp_path / "run.sltrace", made_up(), header()))
    canvas = inspector.page.canvas
    assert (canvas.raw.isChecked(), context.values.calm) == (True, False)
    canvas.calm.click()
    assert context.values.calm
    assert context.settings.value("canvas/calm") in (True, "true")
    context.values.calm = False
    context.apply_values()
    assert canvas.raw.isChecked()


def test_a_kept_run_is_opened_and_is_in_the_tree(qtbot: QtBot, context: AppContext, open_inspector: Open) -> None:
    one, _ = keep(context, "one", "two")
    inspector = open_inspector()
    qtbot.waitUntil(lambda: len(offered(inspector)) == 2)
    inspector.page.welcome.runs.cards[0].click()
    assert context.navigator.calls == [("show_page", INSPECTOR)]  # type: ignore[attr-defined]
    assert inspector.page.player.trace.path == one
    qtbot.waitUntil(lambda: inspector.forks.tree.topLevelItemCount() == 1)


def test_a_new_run_opens_at_its_first_step_and_first_tab_and_a_fork_stays(
    context: AppContext, open_inspector: Open
) -> None:
    one, two = keep(context, "one", "two")
    inspector = open_inspector()
    page = inspector.page
    inspector.open_key(str(one))
    assert page.player.frame == Frame(0, 0)
    page.side.setCurrentIndex(CHANGE)
    inspector.open_key(str(two))
    assert (page.player.frame, page.side.currentIndex()) == (Frame(0, 0), CELL)
    page.side.setCurrentIndex(CHANGE)
    opened = page.player.trace
    parent = Parent(opened.header.id, 0, 0)
    page.follow_live(
        Trace(header=dataclasses.replace(opened.header, id="fork", parent=parent), piece=str, is_special=bool)
    )
    assert page.side.currentIndex() == CHANGE
    inspector.inspect(opened, place=0)
    assert page.player.frame == Frame(0, NOISE)


def test_a_run_of_no_model_that_is_there_is_looked_at_but_not_gone_on_from(
    context: AppContext, open_inspector: Open
) -> None:
    of = header()
    made = dataclasses.replace(of, model=dataclasses.replace(of.model, fingerprint="of other files"))
    inspector = open_inspector()
    inspector.inspect(write(context.folders.traces / "other.sltrace", made_up(), made))
    assert inspector.page.player.trace is not None
    assert "load that model" in inspector.forks.reason.text()
    inspector.forks.run.click()
    assert not inspector.continuations.is_forking
    assert context.reason_to_wait() == ""


def test_a_run_that_came_as_text_alone_is_not_opened(context: AppContext, open_inspector: Open) -> None:
    inspector, said = open_inspector(), list[str]()
    context.said.connect(lambda text, _: said.append(text))
    inspector.open_key(str(write(context.folders.traces / "text.sltrace", [TextArrived("Hello")], header(0, 0))))
    assert inspector.page.player.trace is None
    assert said == ["This run has no steps to look at: the server that ran its model sent only text."]

"""What the inspector does with runs, with a context and no window: what it offers, opens and refuses."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

import engine
from app.context import INSPECTOR, AppContext
from app.inspector import run_catalog
from app.inspector.controller import InspectorController, build
from app.inspector.page import CELL, CHANGE
from app.state.run.replay import NOISE, Frame
from engine.events import TextArrived
from engine.trace import Parent, Trace, read_header
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
        qtbot.addWidget(made.widget)
        made.widget.resize(1200, 800)
        made.widget.show()
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


def test_opening_waits_for_no_file_and_cards_come_as_they_are_read(
    qtbot: QtBot, context: AppContext, open_inspector: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(context, "one", "two")
    gate = threading.Semaphore(0)

    def slow(path: Path, most: int) -> Any:
        assert gate.acquire(timeout=30)
        return read_header(path, most)

    monkeypatch.setattr(run_catalog, "read_header", slow)
    inspector = open_inspector()
    assert offered(inspector) == []
    assert len(offered(inspector, "Gallery")) == len(engine.gallery())
    gate.release(100)
    qtbot.waitUntil(lambda: offered(inspector) == ["one", "two"])


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


def test_a_kept_run_is_opened_and_stands_in_the_tree(qtbot: QtBot, context: AppContext, open_inspector: Open) -> None:
    one, _ = keep(context, "one", "two")
    inspector = open_inspector()
    qtbot.waitUntil(lambda: len(offered(inspector)) == 2)
    with qtbot.waitSignal(context.page_asked) as asked:
        inspector.page.welcome.runs.cards[0].click()
    assert asked.args == [INSPECTOR]
    assert inspector.page.player.trace is not None
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
    assert opened is not None
    parent = Parent(opened.header.id, 0, 0)
    page.follow_live(
        Trace(header=dataclasses.replace(opened.header, id="fork", parent=parent), piece=str, is_special=bool)
    )
    assert page.side.currentIndex() == CHANGE
    inspector.inspect(opened, place=0)
    assert page.player.frame == Frame(0, NOISE)


def test_a_message_leaves_the_controls_of_time_free(context: AppContext, open_inspector: Open) -> None:
    (one,) = keep(context, "one")
    inspector = open_inspector()
    page = inspector.page
    assert inspector.notice is None  # the window's, over the list of runs
    inspector.open_key(str(one))
    assert inspector.notice is not None
    inspector.notice.show_done("Exported run.html", "Show", lambda: None)
    page.grab()
    over = inspector.notice.rect().translated(inspector.notice.mapTo(page, QPoint()))
    for part in (page.transport, page.captions):
        assert not over.intersects(part.rect().translated(part.mapTo(page, QPoint())))
    assert page.main.rect().translated(page.main.mapTo(page, QPoint())).contains(over)
    page.close_button.click()
    inspector.open_key(str(one))
    assert not inspector.notice.isVisible()


def test_a_file_that_cannot_be_read_is_said_once_and_hides_no_other(
    qtbot: QtBot, context: AppContext, open_inspector: Open
) -> None:
    keep(context, "one")
    (context.folders.traces / "rubbish.sltrace").write_bytes(b"rubbish")
    said: list[str] = []
    context.said.connect(lambda message, _details: said.append(message))
    inspector = open_inspector()
    qtbot.waitUntil(lambda: offered(inspector) == ["one"])
    qtbot.waitUntil(lambda: bool(said))
    inspector.enter()
    qtbot.wait(100)
    assert len(said) == 1
    assert said[0].startswith("1 run cannot be listed: ")


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
    assert not inspector.going_on.is_forking
    assert context.reason_to_wait() == ""


def test_the_thread_that_reads_ends_with_the_app(context: AppContext, open_inspector: Open) -> None:
    keep(context, *(str(number) for number in range(5)))
    open_inspector()
    context.close()
    assert all(thread.name != "safelight-runs" for thread in threading.enumerate())


def test_a_run_that_came_as_text_alone_is_not_opened(context: AppContext, open_inspector: Open) -> None:
    inspector, said = open_inspector(), list[str]()
    context.said.connect(lambda text, _: said.append(text))
    inspector.open_key(str(write(context.folders.traces / "text.sltrace", [TextArrived("Hello")], header(0, 0))))
    assert inspector.page.player.trace is None
    assert said == ["This run has no steps to look at: the server that ran its model sent only text."]

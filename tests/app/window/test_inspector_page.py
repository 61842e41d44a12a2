"""The inspector in the window: forks and what they were made from, keys, steps that are counted alike everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTreeWidgetItem
from pytestqt.qtbot import QtBot

from app.cli.main import main
from app.design import themes
from app.design.tokens import DARKROOM, PAPER
from app.export.pictures import PictureSheet, PictureStyle
from app.export.run import Options, export, parse_steps
from app.inspector.controller import InspectorController
from app.window.main_window import MainWindow
from engine import SUDOKU, gallery
from engine.catalog import SMALL

KEY = Qt.ItemDataRole.UserRole
Open = Callable[..., MainWindow]


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


def number(text: str) -> int:
    """The step that a text names."""
    found = re.search(r"\bstep (\d+)", text, re.IGNORECASE)
    assert found is not None, text
    return int(found[1])


def test_board_inspector_and_export_count_a_step_alike(window: MainWindow, tmp_path: Path) -> None:
    inspector = window.pages.inspector()
    page = inspector.page
    path = next(one.path for one in gallery() if one.path.stem == "sudoku-hard")
    inspector.open_key(str(path))
    page.overview.finish()
    replay, trace = page.player.replay, page.player.trace
    assert replay is not None
    assert trace is not None
    (place,) = parse_steps("6", replay, 0)
    page.player.go(place)
    sheet = PictureSheet(trace, replay, [place], PictureStyle(DARKROOM))
    for _ in sheet.measure():
        pass
    seen = [
        page.transport.frame.accessibleName(),
        page.captions.text.accessibleName(),
        page.canvas.board.accessibleDescription(),
        page.canvas.view.accessibleDescription(),
        page.transport.timeline.words_at(place),
        page.answer.plots.area.words_at(5),
        sheet.caption(place),
    ]
    assert [number(text) for text in seen] == [6] * len(seen)
    assert main(["export", str(path), str(tmp_path / "six.png"), "--steps", "6"]) == 0
    list(export(trace, tmp_path / "place.png", Options(format="png", frames=(place,))))
    assert (tmp_path / "six.png").read_bytes() == (tmp_path / "place.png").read_bytes()


def test_a_run_of_the_gallery_has_a_picture_and_keeps_its_title(qtbot: QtBot, window: MainWindow) -> None:
    inspector = window.pages.inspector()
    page = inspector.page
    page.close_button.click()
    cards = [card for card in page.welcome.runs.cards if card.offer.section == "Gallery"]
    qtbot.waitUntil(lambda: all(card.picture.picture is not None for card in cards))
    hard = next(card for card in cards if card.offer.title.startswith("A hard Sudoku"))
    assert hard.picture.picture is not None
    assert hard.picture.picture.board is not None
    shown = hard.picture.grab().toImage()
    themes.publish(PAPER)
    assert hard.picture.grab().toImage() != shown
    hard.click()
    assert page.title.accessibleName() == hard.offer.title
    assert page.facts.accessibleName().endswith("Sudoku, 25 givens")

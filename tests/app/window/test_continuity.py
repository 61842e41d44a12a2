"""After a restart the window's place and page come back, the model and the adapter on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, QSettings, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.context import CHAT, MODELS, SUDOKU
from app.session.model_slot import ModelChoice
from app.settings import store
from app.window.main_window import MainWindow
from engine import BASE, MINI
from engine import SUDOKU as PUZZLES
from engine.catalog import SMALL
from tests.app.sudoku.solver_engine import SolverEngine

Open = Callable[..., MainWindow]


@pytest.fixture
def fake() -> SolverEngine:
    """Takes adapters."""
    return SolverEngine()


def said(window: MainWindow) -> str:
    return window.pages.chat().page.notice.message.text() if window.pages.chat().page.notice.isVisible() else ""


def test_place_page_model_and_adapter_come_back(qtbot: QtBot, open_window: Open, settings: QSettings) -> None:
    store.write_page(settings, "none")
    window = open_window(None)
    assert window.pages.current is window.pages[CHAT]
    window.setGeometry(30, 40, 700, 650)
    window.context.load(BASE, "sudoku-lora")
    qtbot.waitUntil(lambda: window.context.slot.choice == ModelChoice(BASE, "sudoku-lora"))
    assert window.topbar.facts.text().endswith(" · the sudoku-lora adapter")
    assert window.status.labels["model"].text() == "Safelight Base with the sudoku-lora adapter"
    window.show_page(SUDOKU)
    window.close()
    settings.sync()
    again = open_window(None)
    assert again.geometry() == QRect(30, 40, 700, 650)
    assert again.pages.current is again.pages[SUDOKU]
    assert again.topbar.places[SUDOKU].isChecked()
    again.reopening.expect_model()
    assert again.context.loading is not None
    assert again.topbar.chooser.currentData() == BASE
    again.reopening.load_model()
    qtbot.waitUntil(lambda: again.context.slot.choice == ModelChoice(BASE, "sudoku-lora"))


@pytest.mark.parametrize(
    ("stored", "model", "title"),
    [
        ("", SMALL, "Small models"),
        ("safelight-auto", SMALL, "Small models"),
        (PUZZLES, PUZZLES, "Safelight Sudoku"),
        ("safelight-skills", MINI, "Safelight Mini"),  # which took its place
    ],
)
def test_the_last_model_or_what_took_its_place_is_loaded(
    qtbot: QtBot, open_window: Open, settings: QSettings, stored: str, model: str, title: str
) -> None:
    if stored:
        store.write_model(settings, stored, None)
    window = open_window(None)
    window.reopening.expect_model()
    assert window.topbar.chooser.currentText() == title
    window.reopening.load_model()
    qtbot.waitUntil(lambda: window.context.slot.choice == ModelChoice(model))
    assert window.topbar.chooser.currentText() == window.status.text("model") == title
    assert store.read_model(settings) == (model, None)


def test_a_remembered_model_that_is_gone_is_replaced_and_said(
    qtbot: QtBot, open_window: Open, settings: QSettings
) -> None:
    store.write_model(settings, "missing", None)
    window = open_window(None)
    window.reopening.expect_model()
    window.reopening.load_model()
    assert store.read_loading(settings) == "missing"
    qtbot.waitUntil(lambda: window.context.slot.choice == ModelChoice(SMALL))
    assert said(window).endswith("there is no model at missing. The small models are loaded instead.")
    assert store.read_loading(settings) == ""
    assert store.read_model(settings) == (SMALL, None)


def test_a_model_whose_loading_ended_the_app_is_not_loaded_again_by_itself(
    open_window: Open, settings: QSettings, tmp_path: Path
) -> None:
    store.write_model(settings, str(tmp_path), None)
    store.write_loading(settings, str(tmp_path))  # and then the process was killed
    window = open_window(None)
    window.reopening.expect_model()
    assert window.context.loading is not None
    assert window.context.loading.path_or_id == SMALL
    assert "closed while loading it" in said(window)
    window.reopening.expect_model()  # once is enough
    assert window.context.loading.path_or_id == str(tmp_path)


def shown(window: MainWindow) -> tuple[object, list[str], str]:
    """Returns the selector's model, the marked rows of the models page, and the text of the Sudoku page's button."""
    rows = window.pages.models().page.rows.items()
    marked = [f"{row.status.text()[0]} {key}" for key, row in rows if row.status.text()[0] in "●○"]
    return window.topbar.chooser.currentData(), marked, window.pages[SUDOKU].page.column.solve.text()


def test_every_place_has_the_same_model_at_every_moment(
    qtbot: QtBot, open_window: Open, tmp_path: Path, fake: SolverEngine
) -> None:
    window = open_window(MINI)
    window.show_page(MODELS)  # which has no rows before
    window.show_page(SUDOKU)
    assert shown(window) == (MINI, [f"● {MINI}"], "Solve")
    down, no_button, no_key = QPoint(0, -120), Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    over = QWheelEvent(down, down, QPoint(), down, no_button, no_key, Qt.ScrollPhase.NoScrollPhase, False)
    QApplication.sendEvent(window.topbar.chooser, over)  # scrolling over it chooses nothing
    assert shown(window) == (MINI, [f"● {MINI}"], "Solve")
    window.topbar.chooser.model_chosen.emit(PUZZLES)
    assert shown(window)[:2] == (PUZZLES, [f"○ {PUZZLES}"])
    qtbot.waitUntil(lambda: not window.context.is_busy and window.context.model is not None, timeout=60_000)
    assert shown(window) == (PUZZLES, [f"● {PUZZLES}"], "Solve")
    window.topbar.chooser.model_chosen.emit("crash")
    assert shown(window)[:2] == ("crash", [])
    qtbot.waitUntil(lambda: window.context.model is not None)
    assert shown(window) == (PUZZLES, [f"● {PUZZLES}"], "Solve")
    (tmp_path / "config.json").write_text("{}")
    window.context.load(str(tmp_path))  # as "Open a folder…" does
    qtbot.waitUntil(lambda: window.context.model is not None)
    assert shown(window)[:2] == (str(tmp_path), [f"● {tmp_path}"])
    loads = len(fake.loads)
    window.topbar.chooser._choose(window.topbar.chooser.currentIndex())  # the one that is there
    assert len(fake.loads) == loads
    window.context.slot.unload()
    qtbot.waitUntil(lambda: window.context.model is None)
    assert shown(window) == (None, [], "Solve")

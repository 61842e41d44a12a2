"""The window where the model is chosen for each prompt: what the header says, and what the next start loads."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.context import ModelChoice
from app.settings import store
from app.tools.panel import ToolsPanel
from app.window.main_window import MainWindow
from engine import SKILLS, SUDOKU
from engine.catalog import AUTO

Open = Callable[..., MainWindow]


def start(qtbot: QtBot, window: MainWindow) -> str:
    """Loads the model of a start; returns what the header says while it loads."""
    window.reopening.expect_model()
    said = window.topbar.chooser.currentText()
    window.reopening.load_model()
    qtbot.waitUntil(lambda: window.context.model is not None)
    return said


def test_a_fresh_install_takes_a_model_for_each_prompt(qtbot: QtBot, open_window: Open, settings: QSettings) -> None:
    window = open_window(None)
    chooser, context = window.topbar.chooser, window.context
    assert chooser.itemData(0) == AUTO
    assert start(qtbot, window) == chooser.currentText() == "Small models (auto)"
    assert window.status.labels["model"].text() == "Safelight Skills"
    assert store.read_model(settings) == (AUTO, None)
    context.route(SUDOKU)
    qtbot.waitUntil(lambda: context.choice == ModelChoice(SUDOKU))
    assert chooser.currentText() == "Small models (auto)"
    assert window.status.labels["model"].text() == "Safelight Sudoku"
    assert store.read_model(settings) == (AUTO, None)
    assert start(qtbot, window) == "Small models (auto)"
    assert context.is_auto


def test_the_tools_page_counts_for_no_model_that_was_taken_by_itself(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(None)
    start(qtbot, window)
    window.dialogs.open_settings()
    settings = QApplication.activeModalWidget()
    assert settings is not None
    (panel,) = settings.findChildren(ToolsPanel)
    assert panel._model() is None
    window.context.load(SUDOKU)
    qtbot.waitUntil(lambda: panel._model() is not None)
    settings.close()


def test_a_single_model_stays_the_choice_at_the_next_start(
    qtbot: QtBot, open_window: Open, settings: QSettings
) -> None:
    store.write_model(settings, SUDOKU, None)
    window = open_window(None)
    assert start(qtbot, window) == "Safelight Sudoku"
    assert window.context.choice == ModelChoice(SUDOKU)
    assert not window.context.is_auto
    window.topbar.chooser.model_chosen.emit(SKILLS)
    qtbot.waitUntil(lambda: window.context.choice == ModelChoice(SKILLS))
    assert window.topbar.chooser.currentText() == "Safelight Skills"
    assert store.read_model(settings) == (SKILLS, None)

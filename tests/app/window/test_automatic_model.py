"""The window with the small models as one: what the header says, and what the next start loads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.session.model_slot import ModelChoice
from app.settings import store
from app.window.main_window import MainWindow
from engine import GAPS, MINI, SUDOKU
from engine.catalog import SMALL

Open = Callable[..., MainWindow]


def start(qtbot: QtBot, window: MainWindow) -> str:
    """Loads the model of a start; returns what the header says while it loads."""
    window.reopening.expect_model()
    said = window.topbar.chooser.currentText()
    window.reopening.load_model()
    qtbot.waitUntil(lambda: window.context.model is not None)
    return said


@pytest.mark.parametrize("stored", ["", "safelight-auto"])
def test_a_fresh_install_and_an_older_one_take_the_small_models(
    qtbot: QtBot, open_window: Open, settings: QSettings, stored: str
) -> None:
    if stored:
        store.write_model(settings, stored, None)
    window = open_window(None)
    chooser, status = window.topbar.chooser, window.status.labels["model"]
    assert start(qtbot, window) == chooser.currentText() == status.text() == "Small models"
    assert window.context.slot.choice == ModelChoice(SMALL)
    assert store.read_model(settings) == (SMALL, None)


def test_a_single_model_stays_the_choice_at_the_next_start(
    qtbot: QtBot, open_window: Open, settings: QSettings
) -> None:
    store.write_model(settings, SUDOKU, None)
    window = open_window(None)
    assert start(qtbot, window) == "Safelight Sudoku"
    window.topbar.chooser.model_chosen.emit(GAPS)
    qtbot.waitUntil(lambda: window.context.slot.choice == ModelChoice(GAPS))
    assert window.topbar.chooser.currentText() == "Safelight Gaps"
    assert store.read_model(settings) == (GAPS, None)


def test_a_model_that_mini_took_the_place_of_is_mini_at_the_next_start(
    qtbot: QtBot, open_window: Open, settings: QSettings
) -> None:
    store.write_model(settings, "safelight-skills", None)
    window = open_window(None)
    assert start(qtbot, window) == "Safelight Mini"
    assert window.context.slot.choice == ModelChoice(MINI)

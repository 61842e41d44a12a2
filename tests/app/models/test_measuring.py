"""The processor is measured in a thread, with progress and a button that stops it; expected speeds follow from it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.context import MODELS
from app.models.controller import ModelsController
from app.models.jobs import JobEnded
from app.models.page import ModelsPage
from app.window.main_window import MainWindow
from engine import SKILLS
from engine.benchmarks import products
from engine.catalog import FAST_DLLM_1_5B, LLADA2_MINI
from engine.kernels import measured
from engine.kernels.measurement import Measurement
from engine.memory import plan as planning
from engine.types import Cancel
from tests.app.models.machines import RTX_4090, without
from tests.engine.memory.test_speed import in_proportion

Open = Callable[..., MainWindow]
SOON = 20_000  # milliseconds
NOT_YET = "Speed on this computer: not measured yet"


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "free_bytes", lambda _: 24 * 10**9)


class Measuring:
    """Stands in for ``measure_products``: waits where the test says, and measures nothing."""

    def __init__(self, disturbed: float = 0.0) -> None:
        self.disturbed, self.go = disturbed, threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self, report: products.Report, cancel: Cancel) -> products.ProductsResult | None:
        self.thread = threading.current_thread()
        report(0.4, "4 bits")
        while not self.go.wait(0.01):
            if cancel.is_set():
                return None
        made = Measurement(measured.here(), in_proportion(scale=1e-8).times)
        return products.ProductsResult(made, self.disturbed)


def shown(qtbot: QtBot, open_window: Open) -> ModelsController:
    window = open_window(None)
    window.context.machine = lambda: without(16)
    window.context.load(SKILLS)
    window.show_page(MODELS)
    models = window.pages.models()
    qtbot.waitUntil(models.page.hero.measure.isVisible, timeout=SOON)
    return models


def test_a_measurement_shows_its_progress_and_is_kept(
    qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring = Measuring()
    monkeypatch.setattr(products, "measure_products", measuring)
    models = shown(qtbot, open_window)
    row, small = models.page.rows[LLADA2_MINI], models.page.rows[SKILLS]
    measure = models.page.hero.measure
    qtbot.waitUntil(lambda: all(models._plans.plan(key) is not None for key in (LLADA2_MINI, SKILLS)), timeout=SOON)
    assert (row.speed.text(), small.speed.text(), measure.text()) == (NOT_YET, "", "Measure this computer's speed")
    qtbot.mouseClick(measure, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: measure.text() == "Stop measuring (40%)", timeout=SOON)
    assert measuring.thread is not threading.main_thread()
    measuring.go.set()
    qtbot.waitUntil(lambda: measure.text() == "Measure this computer's speed", timeout=SOON)
    assert measured.kept() is not None
    for each in (row, small):
        assert each.speed.text().startswith("About ")
        assert " a step of " in each.speed.text()


def test_a_stopped_measurement_leaves_nothing(qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "measure_products", Measuring())
    models = shown(qtbot, open_window)
    measure = models.page.hero.measure
    qtbot.mouseClick(measure, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: measure.text().startswith("Stop measuring"), timeout=SOON)
    qtbot.mouseClick(measure, Qt.MouseButton.LeftButton)
    assert measure.text() in ("Stopping…", "Measure this computer's speed")
    qtbot.waitUntil(lambda: measure.text() == "Measure this computer's speed", timeout=SOON)
    assert measured.kept() is None
    assert models.page.rows[LLADA2_MINI].speed.text() == NOT_YET
    assert not models.page.notice.isVisible()


def test_beside_busy_programs_a_measurement_is_refused(
    qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring = Measuring(disturbed=1.0)
    measuring.go.set()
    monkeypatch.setattr(products, "measure_products", measuring)
    models = shown(qtbot, open_window)
    qtbot.mouseClick(models.page.hero.measure, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(models.page.notice.isVisible, timeout=SOON)
    assert measured.kept() is None
    assert models.page.rows[LLADA2_MINI].speed.text() == NOT_YET


def test_what_was_kept_is_used_at_the_next_start(qtbot: QtBot, open_window: Open) -> None:
    measured.keep(Measurement(measured.here(), in_proportion(scale=1e-8).times))
    models = shown(qtbot, open_window)
    best = models.look.recommended
    assert best is not None
    qtbot.waitUntil(lambda: models.page.rows[best.key].speed.text().startswith("About "), timeout=SOON)


def test_a_slow_computer_gets_a_smaller_model_and_the_reason(qtbot: QtBot, open_window: Open) -> None:
    models = shown(qtbot, open_window)
    page = models.page
    assert hero_rows(page) == [page.rows[LLADA2_MINI]]
    models.jobs.ended.emit(JobEnded("", "measure", in_proportion(scale=1e-6)))  # a laptop
    assert hero_rows(page) == [page.rows[FAST_DLLM_1_5B]]
    assert page.hero.note.text().endswith(
        "LLaDA2.1 mini fits, but would write fewer than 3 tokens a second on this computer."
    )


def test_a_card_is_not_measured(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(None)
    window.context.machine = lambda: RTX_4090
    window.context.load(SKILLS)
    window.show_page(MODELS)
    models = window.pages.models()
    qtbot.waitUntil(lambda: models.look.recommended is not None, timeout=SOON)
    assert not models.page.hero.measure.isVisible()
    models.jobs.ended.emit(JobEnded("", "measure", in_proportion(scale=1e-8)))
    assert [row.speed.text() for row in models.page.rows.values() if row.speed.text().startswith("About")] == []


def hero_rows(page: ModelsPage) -> list[QWidget]:
    items = [page.hero.rows.itemAt(place) for place in range(page.hero.rows.count())]
    return [row for item in items if item is not None and (row := item.widget()) is not None]

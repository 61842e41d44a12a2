"""The Batch tab in the real window with real embedded models: held-out tasks in two lanes, and a puzzle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.context import RACE
from app.race.controller import RaceController
from app.state.race.lanes import LaneSpec
from app.state.race.prompts import BatchRequest
from app.window.main_window import MainWindow
from engine import SKILLS
from engine.tasks.skills import SKILLS as TASKS

RUN_MS = 180_000


@pytest.fixture
def page(window_with: Callable[[str], MainWindow]) -> RaceController:
    window = window_with(SKILLS)
    window.show_page(RACE)
    found = window.pages[RACE]
    assert isinstance(found, RaceController)
    found.show("batch")
    return found


@pytest.mark.slow
def test_a_batch_of_skills(qtbot: QtBot, page: RaceController) -> None:
    view, (first, second) = page.page.batch, list(TASKS)[:2]
    page.lanes.change(1, LaneSpec(SKILLS, "autoregressive", {"max_new_tokens": 8}))
    view.source.count.setValue(4)
    for name in list(TASKS)[2:]:
        view.source.skills[name].setChecked(False)
    view.run.setFocus()
    qtbot.keyClick(view.run, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: not page.is_busy and not page.batch.is_measuring, timeout=RUN_MS)
    assert page.batch.is_finished
    assert page.batch.request == BatchRequest("skills", (first, second), 4, 0)
    good, bad = page.batch.scores.rows()
    assert (good.rate, good.count, good.checked) == (1.0, 4, 4)
    assert bad.rate == 0.0
    assert bad.tokens_per_forward == 1.0 < good.tokens_per_forward
    assert good.agreement == 1.0 > bad.agreement
    assert [view.groups.itemText(place) for place in range(view.groups.count())] == [
        *("All prompts", TASKS[first].title, TASKS[second].title)
    ]
    view.groups.setCurrentIndex(1)
    assert [row.count for row in page.batch.scores.rows(first)] == [2, 2]
    assert "100.0 % right" in view.by_speed.accessibleDescription()
    view.choice.setCurrentIndex(1)
    assert "tokens per pass" in view.by_speed.accessibleDescription()
    view.answers.selectRow(3)
    prompt, *texts = (text.text() for text in view.detail.texts)
    assert texts[0] == page.batch.scores.results[-2].text
    assert prompt == page.batch.scores.results[-1].prompt

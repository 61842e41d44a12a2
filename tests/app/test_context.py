"""The context of all pages: the model, the reason to wait, and how everything ends."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import shiboken6
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.design import themes
from app.session.model_slot import ModelChoice
from app.settings import store
from app.window.pages import PAGES
from engine import MINI, SUDOKU
from engine.catalog import SMALL
from engine.service import LoadFailed

Open = Callable[..., AppContext]


class Task:
    """Something that may be running."""

    def __init__(self, reason: str = "") -> None:
        self.reason, self.stops = reason, 0

    def reason_to_wait(self) -> str:
        return self.reason

    def stop(self) -> None:
        self.stops += 1
        self.reason = ""


def messages(context: AppContext) -> list[str]:
    """Returns what the context says from now on."""
    said: list[str] = []
    context.said.connect(lambda message, _details: said.append(message))
    return said


# ---------------------------------------------------------------- the model


def test_a_model_counts_as_loading_until_it_is_there(qtbot: QtBot, open_context: Open) -> None:
    context = open_context(None)
    assert context.reason_to_wait() == "No model is loaded. Choose one above"
    context.load(SUDOKU)
    assert context.loading is not None
    assert (context.loading.path_or_id, context.loading.title) == (SUDOKU, "Safelight Sudoku")
    assert context.reason_to_wait() == context.loading.text == "Loading Safelight Sudoku: starting"
    with qtbot.waitSignal(context.slot.changed):
        pass
    assert context.loading is None
    assert context.model is not None
    assert context.model.path_or_id == SUDOKU
    assert context.reason_to_wait() == ""


def test_only_the_model_that_was_asked_for_last_counts(qtbot: QtBot, open_context: Open) -> None:
    context = open_context()
    said = messages(context)
    context.load("missing")
    context.load(SUDOKU)
    assert context.loading is not None
    qtbot.waitUntil(lambda: context.model is not None)
    assert context.model is not None
    assert context.model.path_or_id == SUDOKU
    assert said == []


def test_a_model_that_cannot_be_loaded_leaves_the_one_before(qtbot: QtBot, open_context: Open, fake: Any) -> None:
    context = open_context(SUDOKU)
    before = context.model
    said = messages(context)
    context.load("missing")
    qtbot.waitUntil(lambda: context.loading is None)
    assert context.model is before  # it was never unloaded
    assert fake._model is not None
    context.load("crash")
    qtbot.waitUntil(lambda: context.model is not None)  # loaded again
    assert context.model is not before
    assert context.slot.choice == ModelChoice(SUDOKU)
    missing, crash = said
    assert missing == "missing cannot be loaded: there is no model at missing. Safelight Sudoku stays loaded."
    assert "unexpected" in crash
    assert crash.endswith("Safelight Sudoku is loaded instead.")


def test_without_a_model_before_the_small_ones_are_loaded(qtbot: QtBot, open_context: Open) -> None:
    context = open_context(None)
    said = messages(context)
    context.load("missing")
    qtbot.waitUntil(lambda: context.slot.choice == ModelChoice(SMALL))
    assert said == ["missing cannot be loaded: there is no model at missing. The small models are loaded instead."]


def test_what_fails_twice_ends_without_a_model(open_context: Open) -> None:
    context = open_context(None)
    context.load("missing")
    for broken in ("missing", SMALL):
        context.slot._apply([LoadFailed(broken, "no")])
    assert (context.loading, context.model) == (None, None)


def test_what_the_engine_has_meanwhile_is_not_taken_for_what_it_had(qtbot: QtBot, open_context: Open) -> None:
    context = open_context()
    assert context.model is not None
    other = dataclasses.replace(context.model, path_or_id=SUDOKU)  # was asked for in between, and came too late
    context.load("missing")
    context.slot._apply([LoadFailed("missing", "no", kept=True, model=other)])
    assert context.loading is not None
    assert context.loading.path_or_id == MINI
    qtbot.waitUntil(lambda: context.model is not None)


def test_a_model_is_let_go_of(qtbot: QtBot, open_context: Open) -> None:
    context = open_context()
    context.slot.unload()
    qtbot.waitUntil(lambda: context.model is None)
    assert context.reason_to_wait() == "No model is loaded. Choose one above"
    context.load(MINI)
    context.slot.unload()  # while it is loaded
    qtbot.waitUntil(lambda: context.loading is None)
    assert context.model is None
    context.load(MINI)
    qtbot.waitUntil(lambda: context.model is not None)
    context.load(SUDOKU)
    context.slot.unload()  # goes back to the one before
    qtbot.waitUntil(lambda: context.loading is None)
    assert context.slot.choice == ModelChoice(MINI)


# ---------------------------------------------------------------- what is possible now


def test_whatever_is_running_is_the_reason_and_is_stopped(open_context: Open) -> None:
    context = open_context()
    idle, first, second = Task(), Task("One moment."), Task("Another moment.")
    for task in (idle, first, second):
        context.register_busy(task)
    assert context.is_busy
    assert context.reason_to_wait() == "One moment."
    context.stop()
    assert [task.stops for task in (idle, first, second)] == [0, 1, 1]
    assert not context.is_busy
    assert context.reason_to_wait() == ""


def test_a_running_answer_is_the_reason(qtbot: QtBot, open_context: Open, fake: Any) -> None:
    context = open_context()
    fake.hold = True
    assert context.model is not None
    context.session.ask("hello", (), context.model)
    assert context.reason_to_wait() == "The answer is being written; Esc stops it"
    context.session.open_new()
    assert context.reason_to_wait().startswith("An answer is being written in another conversation")
    context.stop()
    fake.gate.release(10)
    qtbot.waitUntil(lambda: not context.is_busy)


# ---------------------------------------------------------------- settings


def test_settings_hold_at_once_and_are_stored(open_context: Open, settings: QSettings) -> None:
    context = open_context()
    signals: list[str] = []
    context.settings_changed.connect(lambda: signals.append("settings"))
    context.offline_changed.connect(lambda: signals.append("offline"))
    context.values.speed, context.values.seed = 0.5, 7
    context.apply_values()
    assert (context.backend.pacing._schedule.clock.speed, store.read_values(settings, False).speed) == (0.5, 0.5)
    assert store.read_values(settings, False).seed == 7
    context.set_offline(True)
    assert store.read_preferences(settings).offline
    assert signals == ["settings", "offline"]


def test_a_seed_of_this_session_is_not_stored_until_it_is_changed(open_context: Open, settings: QSettings) -> None:
    context = open_context(None, 3)
    context.apply_values()
    assert store.read_values(settings, False).seed is None
    context.values.seed = 4
    context.apply_values()
    assert store.read_values(settings, False).seed == 4


# ---------------------------------------------------------------- the rest


@pytest.mark.parametrize("failing", [None, 1])
def test_the_end_undoes_what_was_begun_last_first_and_once_whatever_fails(
    open_context: Open, failing: int | None
) -> None:
    context = open_context()
    done: list[int] = []

    def end(number: int) -> None:
        done.append(number)
        if number == failing:
            raise RuntimeError(f"ending {number}")

    for number in range(3):
        context.at_end(lambda number=number: end(number))  # type: ignore[misc]
    with contextlib.nullcontext() if failing is None else pytest.raises(RuntimeError, match=f"ending {failing}"):
        context.close()
    context.close()
    assert done == [2, 1, 0]
    assert not context.backend.is_alive
    assert not context.library.is_open


def test_closed_pages_get_no_more_events(open_context: Open) -> None:
    context = open_context()
    pages: list[Any] = [entry.build(context) for entry in PAGES]
    context.close()
    for page in pages:
        shiboken6.delete(page.widget)
    for signal in (context.busy_changed, context.slot.changed, context.settings_changed, themes.changed):
        signal.emit()
    assert not any(map(shiboken6.isValid, pages))

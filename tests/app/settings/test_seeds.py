"""Seeds from 0 to 2^63 - 1: in the fields, in the stored settings, in a run, and in the conversation that keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.settings import store
from app.settings.fields import SeedBox
from app.settings.values import SettingsValues, later_seed
from engine.config import LARGEST_SEED

LARGE = 5_000_000_000


def test_a_fixed_seed_is_counted_up_and_never_becomes_another() -> None:
    for seed in (0, 2**31 - 1, 2**31, LARGE, LARGEST_SEED):
        assert SettingsValues(seed=seed).next_seed() == seed
    assert SettingsValues(seed=LARGE).next_seed(2) == LARGE + 2
    assert later_seed(LARGEST_SEED, 1) == 0


@pytest.mark.parametrize("seed", [0, 2**31, LARGE, 2**53 + 1, LARGEST_SEED])
def test_a_seed_is_stored_to_the_last_digit(settings: QSettings, seed: int) -> None:
    store.write_values(settings, SettingsValues(seed=seed), False, keep_seed=False)
    settings.sync()
    again = QSettings(settings.fileName(), QSettings.Format.IniFormat)
    assert store.read_values(again, False).seed == seed


@pytest.mark.parametrize("stored", [7, "7", "-1", str(2**63), "9" * 5_000, "1e3", "much", "²", True, ["7"]])
def test_what_is_no_seed_is_left_out(settings: QSettings, stored: object) -> None:
    settings.setValue("sampler/seed", stored)
    assert store.read_values(settings, False).seed == (7 if stored in (7, "7") else None)


@pytest.fixture
def box(qtbot: QtBot) -> SeedBox:
    made = SeedBox()
    qtbot.addWidget(made)
    made.show()
    return made


def test_a_seed_is_typed_and_holds_once_it_is_whole(qtbot: QtBot, box: SeedBox) -> None:
    values: list[int] = []
    box.valueChanged.connect(lambda: values.append(box.value()))
    box.selectAll()
    qtbot.keyClicks(box, str(LARGEST_SEED))
    assert values == []
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert values == [LARGEST_SEED]
    qtbot.keyClick(box, Qt.Key.Key_Up)  # there is none above
    qtbot.keyClick(box, Qt.Key.Key_Down)
    assert values == [LARGEST_SEED, LARGEST_SEED - 1]
    box.clear()
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert box.text() == str(LARGEST_SEED - 1)
    assert str(LARGEST_SEED) in box.toolTip()


def test_what_is_no_seed_cannot_be_entered(qtbot: QtBot, box: SeedBox) -> None:
    for text in (str(LARGEST_SEED + 1), "-5", "1e9", "seven"):
        box.setValue(1)
        box.selectAll()
        QGuiApplication.clipboard().setText(text)
        box.paste()
        qtbot.keyClick(box, Qt.Key.Key_Return)
        assert box.value() == 1
    with pytest.raises(ValueError, match="is not a seed"):
        box.setValue(LARGEST_SEED + 1)


def test_a_large_seed_reaches_the_run_and_is_kept_with_the_answer(
    qtbot: QtBot, open_context: Callable[..., AppContext], fake: Any
) -> None:
    context = open_context(seed=LARGEST_SEED)
    session = context.session
    assert context.model is not None
    session.ask("hello", (), context.model)
    qtbot.waitUntil(lambda: session.active is None)
    assert fake.seeds == [LARGEST_SEED]
    conversation = session.conversation
    assert conversation is not None
    session.open_new()
    session.open(conversation)
    assert session.chat.turns[0].answer.seed == LARGEST_SEED

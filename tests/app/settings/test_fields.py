"""Numbers that are typed, with either decimal sign; seeds to the last digit, in fields, settings and runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QLocale, QSettings, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.settings import store
from app.settings.fields import RealBox, SeedBox
from app.settings.values import SettingsValues, later_seed
from engine.config import LARGEST_SEED
from engine.settings import Setting

NUMBER = Setting("Number", "", "", 0, 10, 0.1, 4)
LARGE = 5_000_000_000
NONE = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def box(qtbot: QtBot) -> RealBox:
    made = RealBox(NUMBER)
    qtbot.addWidget(made)
    made.setValue(0.7)
    made.show()
    return made


def write(qtbot: QtBot, box: RealBox, text: str) -> float:
    """Type a text in place of the number, then Return."""
    box.selectAll()
    for letter in text:  # pytest-qt types ASCII alone
        QApplication.sendEvent(box.lineEdit(), QKeyEvent(QEvent.Type.KeyPress, 0, NONE, letter))
    qtbot.keyClick(box, Qt.Key.Key_Return)
    return box.value()


def test_a_point_and_a_comma_mean_the_same(qtbot: QtBot, box: RealBox) -> None:
    for text, value in {"1.5": 1.5, "1,5": 1.5, ",5": 0.5, "0,005": 0.005, "2": 2, "3.": 3, "0,1250": 0.125}.items():
        assert write(qtbot, box, text) == value
    assert box.text() == "0.125"
    assert write(qtbot, box, "x") == 0.125


def test_the_systems_language_changes_no_number(qtbot: QtBot) -> None:
    QLocale.setDefault(QLocale("de"))
    try:
        box = RealBox(NUMBER)
        qtbot.addWidget(box)
        box.setValue(0.25)
        assert box.text() == "0.25"
        assert write(qtbot, box, "0.5") == 0.5
    finally:
        QLocale.setDefault(QLocale("C"))


# ---------------------------------------------------------------- seeds, from 0 to 2^63 - 1


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
def seed_box(qtbot: QtBot) -> SeedBox:
    made = SeedBox()
    qtbot.addWidget(made)
    made.show()
    return made


def test_a_seed_is_typed_and_holds_once_it_is_whole(qtbot: QtBot, seed_box: SeedBox) -> None:
    values: list[int] = []
    seed_box.valueChanged.connect(lambda: values.append(seed_box.value()))
    seed_box.selectAll()
    qtbot.keyClicks(seed_box, str(LARGEST_SEED))
    assert values == []
    qtbot.keyClick(seed_box, Qt.Key.Key_Return)
    assert values == [LARGEST_SEED]
    qtbot.keyClick(seed_box, Qt.Key.Key_Up)  # there is none above
    qtbot.keyClick(seed_box, Qt.Key.Key_Down)
    assert values == [LARGEST_SEED, LARGEST_SEED - 1]
    seed_box.clear()
    qtbot.keyClick(seed_box, Qt.Key.Key_Return)
    assert seed_box.text() == str(LARGEST_SEED - 1)
    assert str(LARGEST_SEED) in seed_box.toolTip()


def test_what_is_no_seed_cannot_be_entered(qtbot: QtBot, seed_box: SeedBox) -> None:
    for text in (str(LARGEST_SEED + 1), "-5", "1e9", "seven"):
        seed_box.setValue(1)
        seed_box.selectAll()
        QGuiApplication.clipboard().setText(text)
        seed_box.paste()
        qtbot.keyClick(seed_box, Qt.Key.Key_Return)
        assert seed_box.value() == 1
    with pytest.raises(ValueError, match="is not a seed"):
        seed_box.setValue(LARGEST_SEED + 1)


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

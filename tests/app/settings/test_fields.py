"""Numbers that are typed: both decimal signs are read."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QLocale, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.settings.fields import RealBox
from engine.settings import Setting

NUMBER = Setting("Number", "", "", 0, 10, 0.1, 4)
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

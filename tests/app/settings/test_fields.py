"""Numbers that are typed: both decimal signs and all digits are read, and what may mean two numbers is not taken."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QLocale, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from app.settings.fields import RealBox

NONE = Qt.KeyboardModifier.NoModifier
WRITTEN = {"en": "0.2", "de": "0,2", "fr": "0,2", "sv": "0,2", "de_CH": "0.2", "ar": "٠٫٢", "fa": "۰٫۲", "hi": "0.2"}


@pytest.fixture
def box(qtbot: QtBot) -> RealBox:
    made = RealBox()
    qtbot.addWidget(made)
    made.setDecimals(4)
    made.setRange(0, 10)
    made.setKeyboardTracking(False)
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


@pytest.mark.parametrize("language", WRITTEN)
def test_a_point_and_a_comma_mean_the_same(qtbot: QtBot, box: RealBox, language: str) -> None:
    box.setLocale(QLocale(language))
    typed = {"1.5": 1.5, "1,5": 1.5, ".5": 0.5, ",5": 0.5, "0.05": 0.05, "0,005": 0.005, "2": 2, "3.": 3, "0.2": 0.2}
    typed |= {"٠٫٢": 0.2, "۰٫۲": 0.2, "१.५": 1.5, "0,1250": 0.125, "0,2": 0.2}
    for text, value in typed.items():
        assert write(qtbot, box, text) == value
    assert box.text() == WRITTEN[language]
    assert write(qtbot, box, box.text()) == 0.2
    box.setValue(1.125)
    assert write(qtbot, box, box.text()) == 1.125
    box.stepBy(-1)
    assert box.value() == 0.125


@pytest.mark.parametrize(
    ("language", "text"),
    [*(("en", text) for text in ("1,000", "1.234,5", "1,234.5")), ("de", "1.000"), ("ar", "2,500"), ("fr", "1.2.3")],
)
def test_a_text_that_may_mean_two_numbers_is_refused_in_words(
    qtbot: QtBot, box: RealBox, language: str, text: str
) -> None:
    box.setLocale(QLocale(language))
    before = box.text()
    QToolTip.hideText()
    assert write(qtbot, box, text) == 0.7
    assert box.text() == before
    assert QToolTip.text().startswith(f"“{text}” may mean two numbers.")


def test_what_is_no_number_or_too_large_is_not_taken(qtbot: QtBot, box: RealBox) -> None:
    box.setLocale(QLocale("de"))
    assert write(qtbot, box, "x") == 0.7
    assert write(qtbot, box, "11,5") == 1.5  # the second 1 would be too large
    assert write(qtbot, box, "11.5") == 1.5

"""The theme and reduced motion are read by widgets, in sight or not, from where they are published; icons come late."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QIcon
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.markdown_view.widget import MarkdownView
from app.design import icons, motion, themes
from app.design.stylesheet import apply_theme
from app.design.tokens import DARKROOM, PAPER


def test_a_theme_that_is_applied_is_published_before_what_measures_is_called(qapp: QApplication) -> None:
    heard: list[str] = []
    hearing = (
        themes.settled.connect(lambda: heard.append(f"settled {themes.current().name}")),
        themes.changed.connect(lambda: heard.append(f"changed {themes.current().name}")),
    )
    apply_theme(qapp, PAPER)
    themes.settled.disconnect(hearing[0])
    themes.changed.disconnect(hearing[1])
    assert heard == ["changed Paper", "settled Paper"]


def test_what_is_hidden_follows_and_what_is_gone_does_not(qtbot: QtBot) -> None:
    prose, button, gone = MarkdownView("Answer"), QPushButton(), MarkdownView("Answer")
    for widget in (prose, button):
        qtbot.addWidget(widget)
    prose.set_text("Some text")
    icons.set_icon(button, "cog-outline")
    icons.load()
    before = prose.grab().toImage(), button.icon().cacheKey()
    del gone
    themes.publish(PAPER)
    assert prose.grab().toImage() != before[0]
    assert button.icon().cacheKey() != before[1]


def test_motion_is_announced_when_it_changes() -> None:
    heard: list[bool] = []
    hearing = motion.changed.connect(lambda: heard.append(motion.is_reduced()))
    for reduced in (True, True, False):
        motion.set_reduced(reduced)
    motion.changed.disconnect(hearing)
    assert heard == [True, False]


def shades(icon: QIcon) -> set[str]:
    """The colours of all opaque pixels."""
    image = icon.pixmap(QSize(32, 32)).toImage()
    found = [image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height())]
    return {shade.name() for shade in found if shade.alpha() == 255}


def test_a_button_waits_for_its_icon(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(icons, "_font", None)
    button = QPushButton()
    qtbot.addWidget(button)
    icons.set_icon(button, "cog-outline")
    size = button.sizeHint()
    assert not icons.is_loaded()
    assert shades(button.icon()) == set()
    icons.load()
    assert QColor(DARKROOM.ink).name() in shades(button.icon())
    assert button.sizeHint() == size  # nothing moves when the icon comes
    icons.set_icon(button, "cog-outline", "accent")
    assert DARKROOM.accent in shades(button.icon())

"""The theme and reduced motion are read by widgets, in sight or not, from where they are published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QPushButton

from app.chat.markdown_view.widget import MarkdownView
from app.design import icons, motion, themes
from app.design.stylesheet import apply_theme
from app.design.tokens import PAPER

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication
    from pytestqt.qtbot import QtBot


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

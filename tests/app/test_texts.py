"""All texts of each page at first sight: a change of words is seen in one place, and read as a difference.

Where words are meant to change, write the files anew: ``SNAPSHOTS=write python -m pytest tests/app/test_texts.py``.
Tests of what a page does need not repeat them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QTabBar, QWidget
from pytestqt.qtbot import QtBot

from app.context import CHAT, INSPECTOR, AppContext
from app.design.chip_bar import SuggestionBar
from app.settings.dialog import SettingsDialog
from app.settings.preferences import Preferences
from app.settings.values import SettingsValues
from app.window.pages import PAGES, Pages
from tests.app.inspector.made_up import Recorded, run
from tests.app.marked import texts

SNAPSHOTS = Path(__file__).with_name("snapshots")


def texts_of(page: QWidget) -> str:
    """A line for each text of a page, in the order of its widgets; what differs by machine is cut."""
    page.window().grab()  # lays out what is not on screen
    bars = [bar for bar in page.findChildren(SuggestionBar) if bar.isVisibleTo(page)]
    chips = [chip for bar in bars for chip in bar.chips]  # how many of them fit hangs on the font
    lines = []
    for part in (page, *page.findChildren(QWidget)):
        is_shown = part.isVisibleTo(page) or part in chips
        if is_shown and not isinstance(part.parent(), QTabBar):  # whose buttons are Qt's own
            for kind, text in texts(part):
                cut = text.replace(os.environ["XDG_DATA_HOME"], "…").replace(os.environ["XDG_CACHE_HOME"], "…")
                if any(letter.isalpha() for letter in cut):
                    lines.append(f"{type(part).__name__} {kind}: {cut!r}\n")
    return "".join(lines)


def assert_as_stored(name: str, found: str) -> None:
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("SNAPSHOTS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.fixture
def pages(qtbot: QtBot, open_context: Callable[..., AppContext], monkeypatch: pytest.MonkeyPatch) -> Pages:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(total=10**12, used=0, free=10**12))
    made = Pages(open_context(seed=5), lambda _page: None)
    qtbot.addWidget(made.stack)
    made.stack.resize(3000, 1200)  # room for all, whatever the font
    return made


@pytest.mark.parametrize("name", [entry.name for entry in PAGES])
def test_a_page_at_first_sight(pages: Pages, name: str) -> None:
    pages.show(name)
    assert_as_stored(name, texts_of(pages[name].widget))


def test_a_conversation(qtbot: QtBot, pages: Pages) -> None:
    pages.show(CHAT)
    pages.chat().sending.send("Repeat the word robot.")
    qtbot.waitUntil(lambda: bool(pages.chat().page.turns) and pages.chat().page.turns[-1].turn.answer.status == "done")
    qtbot.waitUntil(lambda: not pages.chat().page.composer.meter.is_counting)
    assert_as_stored("chat_answer", texts_of(pages.chat().widget))


def test_a_run_in_the_inspector(pages: Pages) -> None:
    pages.show(INSPECTOR)
    pages.inspector().inspect(Recorded(run()))
    assert_as_stored("inspector_run", texts_of(pages.inspector().widget))


def test_the_settings(qtbot: QtBot, settings: QSettings) -> None:
    dialog = SettingsDialog(Preferences(), SettingsValues(), settings)
    qtbot.addWidget(dialog)
    sections = [dialog.pages.widget(place) for place in range(dialog.pages.count())]
    assert_as_stored("settings", "".join(map(texts_of, sections)))

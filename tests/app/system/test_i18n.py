"""Every string passes through the catalogue, seen by one that puts all it says in brackets."""

from __future__ import annotations

import gettext
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.design.action import Action, Actions
from app.settings.dialog import SettingsDialog
from app.settings.store import read_preferences
from app.settings.values import SettingsValues
from app.system import i18n
from app.system.i18n import tr
from app.window.palette import Palette, ShortcutSheet
from engine.errors import Sentence
from tests.app.marked import Brackets, unmarked


@pytest.fixture(autouse=True)
def _brackets() -> Iterator[None]:
    i18n.use(Brackets())
    yield
    i18n.use(gettext.NullTranslations())


def some_actions() -> Actions:
    return Actions(
        (
            Action("new", tr("New"), tr("Conversations"), lambda: None, ("Ctrl+N", "F2")),
            Action("stop", tr("Stop"), tr("Answer"), lambda: None, (), lambda: tr("Nothing is running.")),
        )
    )


def test_settings_dialog(qtbot: QtBot, settings: QSettings) -> None:
    dialog = SettingsDialog(read_preferences(settings), SettingsValues(), settings)
    qtbot.addWidget(dialog)
    assert dialog.sections.item(0).text() == "⟦Appearance⟧"
    assert unmarked(dialog) == []


def test_palette_and_sheet(qtbot: QtBot) -> None:
    actions = some_actions()
    palette, sheet = Palette(actions), ShortcutSheet(actions)
    for dialog in (palette, sheet):
        qtbot.addWidget(dialog)
    palette.ask()
    assert unmarked(palette, ["Ctrl+N", "F2"]) == []
    palette.field.setText("zzz")
    assert unmarked(palette, ["Ctrl+N", "F2"]) == []
    assert unmarked(sheet, ["Ctrl+N", "F2"]) == []
    palette.close()


def test_a_sentence_of_the_engine_is_said_by_its_pattern() -> None:
    made = Sentence("It has {count} parts.", count=3)
    assert made == "It has 3 parts."
    assert tr(made) == "⟦It has 3 parts.⟧"

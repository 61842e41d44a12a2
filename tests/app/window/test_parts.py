"""The window's parts together, with a stand-in engine: pages, presets, settings, faults, names in every language."""

from __future__ import annotations

import gettext
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtGui import QDesktopServices, QKeySequence
from PySide6.QtWidgets import QApplication, QDialog
from pytestqt.qtbot import QtBot

from app.design import themes
from app.library import NewMessage
from app.session import saving
from app.settings.dialog import SettingsDialog
from app.system import i18n
from app.system.crash_handler import CrashHandler
from app.window.main_window import MainWindow
from app.window.palette import Palette, ShortcutSheet
from engine import MINI, PUBLISHED, SUDOKU, SafelightError
from engine.catalog import installed
from tests.app.desk import Lock, stored
from tests.app.marked import Brackets, unmarked
from tests.app.window.asking import ask

Open = Callable[..., MainWindow]
CONTROL = Qt.KeyboardModifier.ControlModifier


def dialog(window: MainWindow, kind: type) -> Any:
    (found,) = [child for child in window.findChildren(QDialog) if isinstance(child, kind) and child.isVisible()]
    return found


def find(qtbot: QtBot, window: MainWindow, words: str) -> None:
    """Run the first thing that the palette finds."""
    if window.findChild(Palette) is None:
        window.actions_by_name.run("palette")
    opened = dialog(window, Palette)
    qtbot.keyClicks(opened.field, words)
    qtbot.keyClick(opened.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window.findChild(Palette) is None)


def test_every_word_on_screen_can_be_translated(qtbot: QtBot, open_window: Open) -> None:
    i18n.use(Brackets())
    try:
        window = open_window()
        ask(qtbot, window, "hello")
        window.pages.models().refresh()
        window.pages.chat().page.notice.show_undo("", lambda: None)
        (turn,) = window.context.session.chat.turns
        data = ["Safelight", "hello", turn.answer.text, window.topbar.chooser.currentText()]
        data += [model.title for model in (*installed(), *PUBLISHED)]
        data += [str(window.context.folders.models), "http://127.0.0.1:8000", "hf_"]
        data += ["CPU", "cpu", "float32", "int4", "tok/s", "M", "MB", "GB", "kB", "s"]
        data += ["Scroll Left", "Scroll Right"]  # Qt's own catalogue has these
        page = window.pages.chat().page
        found = unmarked(window, [*data, *page.welcome.suggestions.prompts])
        assert not found, "\n".join(found)
    finally:
        i18n.use(gettext.NullTranslations())


def test_every_function_is_in_the_palette_or_has_a_key_which_the_sheet_shows(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    names = window.actions_by_name
    assert all(action.keys or action.in_palette for action in names)
    assert len({action.title for action in names}) == len(names)
    keys = [(action.page, QKeySequence(key)) for action in names for key in action.keys]
    assert not any(key.isEmpty() for _page, key in keys)
    assert len({(page, key.toString()) for page, key in keys}) == len(keys)
    on_all = {key.toString() for page, key in keys if not page}
    assert not {key.toString() for page, key in keys if page} & on_all
    qtbot.keyClick(window, Qt.Key.Key_F1)
    sheet = dialog(window, ShortcutSheet)
    shown = " ".join(label.text() for label in sheet.findChildren(type(window.topbar.facts)))
    for action in names:
        assert not action.keys or action.page not in ("", "chat") or action.title in shown
    sheet.reject()


def test_the_palette_finds_and_runs(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    library = window.context.library
    for title in ("Plans for the garden", "Another"):
        library.add(library.create(title=title, model=MINI), NewMessage(None, "user", "hello"))
    qtbot.keyClick(window, Qt.Key.Key_K, CONTROL)
    find(qtbot, window, "go models")
    assert window.pages.current is window.pages.models()
    find(qtbot, window, "plan gard")
    assert window.pages.current is window.pages.chat()
    assert window.context.session.conversation is not None
    assert library.conversation(window.context.session.conversation).title == "Plans for the garden"
    before = themes.current()
    find(qtbot, window, "paper")
    assert themes.current() is not before
    find(qtbot, window, "entropy bound")
    assert window.focusWidget() is window.strip.boxes["entropy_bound"]
    find(qtbot, window, "text size")
    settings = QApplication.activeModalWidget()
    assert isinstance(settings, SettingsDialog)
    assert settings.focusWidget() is settings.controls["text_percent"]
    settings.close()
    find(qtbot, window, "safelight sudoku")
    qtbot.waitUntil(lambda: window.context.model is not None and window.context.model.path_or_id == SUDOKU)


def test_settings_hold_at_once_and_stay(qtbot: QtBot, open_window: Open, settings: QSettings) -> None:
    window = open_window()
    page = window.pages.chat().page
    qtbot.keyClick(window, Qt.Key.Key_Comma, CONTROL)
    opened = dialog(window, SettingsDialog)
    before = page.composer.edit.fontMetrics().height()
    opened.controls["text_percent"].setValue(150)
    assert page.composer.edit.fontMetrics().height() > before
    opened.controls["offline"].setChecked(True)
    assert window.context.preferences.offline
    opened.controls["reduced_motion"].setChecked(True)
    assert window.context.values.reduced_motion
    opened.accept()
    other = open_window()
    kept = other.context.preferences
    assert (kept.text_percent, kept.offline, other.context.values.reduced_motion) == (150, True, True)
    other.appearance.step_text(-50)
    assert settings.value("window/text_percent") in (None, 100)


def test_threads_hold_for_the_models_that_are_loaded_next(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    assert window.status.text("device") == "CPU, 1 thread"
    qtbot.keyClick(window, Qt.Key.Key_Comma, CONTROL)
    opened = dialog(window, SettingsDialog)
    opened.controls["threads"].setValue(3)
    opened.accept()
    assert window.status.text("device") == "CPU, 1 thread"
    window.context.load(MINI)
    qtbot.waitUntil(lambda: window.status.text("device") == "CPU, 3 threads")
    assert open_window().status.text("device") == "CPU, 3 threads"  # the next start's too


def test_a_preset_is_taken_marked_as_changed_and_kept_with_the_conversation(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    picker = window.pages.chat().presets
    picker.setCurrentIndex(picker.findData("careful"))
    picker.activated.emit(picker.currentIndex())
    assert window.context.values.overrides == {"entropy_bound": 0.05, "max_denoising_steps": 96}
    assert window.strip.boxes["entropy_bound"].value() == 0.05
    ask(qtbot, window, "hello")
    assert window.context.session.chat.turns[0].answer.config.max_denoising_steps == 96
    window.strip.boxes["entropy_bound"].setValue(0.2)
    assert picker.currentText() == "Careful, changed"
    first = window.context.session.conversation
    window.conversations.open_new()
    assert first is not None
    assert window.context.session.library.conversation(first).preset == "careful"


def test_a_fault_anywhere_is_reported_and_the_app_goes_on(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    faults = CrashHandler()
    faults.happened.connect(window.context.say)
    faults.install()
    try:
        with qtbot.captureExceptions():
            faults.report(RuntimeError("a slot fell over"), "in a test")
        assert "a slot fell over" in window.pages.chat().page.notice.message.text()
        ask(qtbot, window, "hello")
        assert window.context.session.chat.turns[0].answer.status == "done"
    finally:
        faults.remove()


def test_the_window_can_be_closed_in_the_middle_of_an_answer(qtbot: QtBot, open_window: Open, fake: Any) -> None:
    window = open_window()
    page = window.pages.chat().page
    fake.hold = True
    page.composer.set_text("hello")
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
    fake.gate.release(2)
    qtbot.waitUntil(lambda: window.context.session.chat.turns[0].answer.stats.total_steps == 2)
    draft = window.context.session.chat.turns[0].answer.draft(window.context.model.decode).text  # type: ignore[union-attr]
    step = threading.Timer(0.2, fake.gate.release, [1000])  # a step that takes its time while the window closes
    step.start()
    window.close()
    step.join()
    again = open_window()
    again.reopening.reopen()
    answer = again.context.session.chat.turns[0].answer
    assert (answer.text, answer.status) == (draft, "stopped")


def test_an_export_is_confirmed_by_a_notice_that_shows_the_file(
    qtbot: QtBot, open_window: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = open_window()
    ask(qtbot, window, "one")
    shown: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: shown.append(url.toLocalFile()))
    window.conversations.ask_save = lambda _name: str(tmp_path / "one.md")
    window.conversations.export(window.context.session.conversation, "markdown")
    notice = window.pages.chat().page.notice
    qtbot.waitUntil(notice.isVisible)
    assert notice.message.text() == "Exported one.md"
    notice.further.click()
    assert shown == [str(tmp_path)]
    assert not notice.isVisible()


# ---------------------------------------------------------------- a library that cannot be written


def test_the_window_says_as_long_as_something_is_not_saved(open_window: Open) -> None:
    window = open_window()
    folder = window.context.session.library.folder
    assert folder is not None
    lock = Lock(folder)
    lock.hold()
    window.pages.chat().sending.send("hello")
    notice = window.pages.chat().page.notice
    assert window.status.text("unsaved") == "Not saved yet"
    assert "Safelight keeps trying" in notice.message.text()
    notice.hide()
    assert window.status.labels["unsaved"].isVisible()
    lock.let_go()
    window.context.session.saving.save()
    assert window.status.text("unsaved") == "Everything is saved"
    assert [summary.title for summary in window.context.session.library.summaries()] == ["hello"]
    lock.close()


def test_closing_is_put_off_once_where_nothing_can_be_saved(open_window: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "CLOSING_SECONDS", 0.1)
    window = open_window()
    folder = window.context.session.library.folder
    assert folder is not None

    def full(path: Path, _text: str, *, private: bool) -> None:
        raise SafelightError(f"the disk is full, so {path} was not written ({private})")

    lock = Lock(folder)
    lock.hold()
    window.pages.chat().sending.send("hello")
    notice = window.pages.chat().page.notice
    with monkeypatch.context() as patched:
        patched.setattr(saving, "write_text", full)
        assert not window.close()
        assert window.isVisible()
        assert "if you close Safelight again, the rest is lost" in notice.message.text()
    assert window.close()
    lock.close()
    assert list(stored(folder)) == ["hello"]

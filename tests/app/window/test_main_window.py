"""The window with a stand-in engine: loading, asking, stopping, settings, names and keys."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from PySide6.QtCore import QSettings, Qt
from PySide6.QtWidgets import QAbstractScrollArea, QAbstractSpinBox, QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow
from engine import MINI, SUDOKU

Open = Callable[..., MainWindow]


def idle(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: window.context.session.active is None)


def ask(qtbot: QtBot, window: MainWindow, text: str) -> None:
    window.pages.chat().page.composer.edit.setPlainText(text)
    qtbot.keyClick(window.pages.chat().page.composer.edit, Qt.Key.Key_Return)


def test_sending_waits_for_the_model_whose_device_is_shown(qtbot: QtBot, open_window: Open, fake: Any) -> None:
    window = open_window(model=None)
    fake.placement.is_news, fake.device = True, "mps:0"
    composer = window.pages.chat().page.composer
    assert not composer.send.isEnabled()
    assert composer.hint.text() == "No model is loaded. Choose one above"
    ask(qtbot, window, "hello")
    assert composer.text == "hello"
    assert window.context.session.chat.turns == []
    window.context.load(MINI)
    assert composer.hint.text() == "Loading Safelight Mini: starting"
    assert composer.send.toolTip() == composer.hint.text()
    assert window.indicators.progress.isVisible()
    qtbot.waitUntil(lambda: window.context.model is not None)
    assert composer.send.isEnabled()
    assert not window.indicators.progress.isVisible()
    assert window.topbar.facts.text() == "1.6 M parameters · MPS:0 · experimental"
    fake.device, fake.placement.reason = "cpu", "cpu is what it is"
    window.context.load(MINI)
    qtbot.waitUntil(lambda: window.topbar.facts.text() == "1.6 M parameters · CPU")
    assert "Reason for this device: cpu is what it is." in window.status.labels["device"].toolTip()


def test_another_model_stops_the_answer_first(qtbot: QtBot, open_window: Open, fake: Any) -> None:
    window = open_window()
    fake.hold, fake.steps = True, 1000
    ask(qtbot, window, "hello")
    fake.gate.release(1)
    qtbot.waitUntil(lambda: window.context.session.chat.turns[0].answer.stats.total_steps == 1)
    window.context.load(SUDOKU)
    fake.gate.release(1000)
    qtbot.waitUntil(lambda: window.context.model is not None)
    assert window.context.model is not None
    assert window.context.model.name == SUDOKU
    assert window.context.session.chat.turns[0].answer.status == "stopped"
    assert window.topbar.chooser.currentData() == SUDOKU


def test_settings_reach_the_run_and_persist(qtbot: QtBot, open_window: Open, fake: Any, settings: QSettings) -> None:
    window = open_window()
    window.strip.boxes["entropy_bound"].setValue(0.5)
    window.strip.boxes["max_denoising_steps"].setValue(12)
    window.strip.random_seed.setChecked(False)
    window.strip.seed.setValue(99)
    ask(qtbot, window, "hello")
    idle(qtbot, window)
    config = fake.configs[-1]
    assert (config.entropy_bound, config.max_denoising_steps, fake.seeds[-1]) == (0.5, 12, 99)
    assert settings.value("sampler/max_denoising_steps") is not None
    assert settings.value("sampler/t_max") is None
    other = open_window()
    assert other.strip.boxes["entropy_bound"].value() == 0.5
    assert other.context.values.seed == 99
    other.strip.reset.click()
    assert other.context.values.overrides == {}
    assert other.strip.boxes["entropy_bound"].value() == fake.defaults.entropy_bound
    assert not other.strip.reset.isEnabled()


def test_shortcuts(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    control = Qt.KeyboardModifier.ControlModifier
    edit = window.pages.chat().page.composer.edit
    window.topbar.chooser.setFocus()
    qtbot.keyClick(window, Qt.Key.Key_L, control)
    assert edit.hasFocus()
    qtbot.keyClick(window, Qt.Key.Key_S, control | Qt.KeyboardModifier.ShiftModifier)
    assert window.strip.isVisible()
    looks = [window.appearance.theme]
    for _ in range(3):
        qtbot.keyClick(window, Qt.Key.Key_T, control)
        looks.append(window.appearance.theme)
    assert all(before is not after for before, after in pairwise(looks))  # each press is seen
    qtbot.keyClick(window, Qt.Key.Key_M, control)
    assert window.topbar.chooser.view().isVisible()
    window.topbar.chooser.hidePopup()


def focusable(window: QWidget) -> list[QWidget]:
    """Returns what Tab or a click can reach, without the inner parts of compound controls."""
    return [
        widget
        for widget in window.findChildren(QWidget)
        if widget.focusPolicy() != Qt.FocusPolicy.NoFocus
        and widget.focusProxy() is None
        and not isinstance(widget.parent(), QAbstractSpinBox)
        and not (isinstance(widget.parent(), QAbstractScrollArea) and widget.objectName().startswith("qt_"))
        and widget.window() is window
    ]


def test_every_control_has_a_name_and_tab_reaches_it(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    page = window.pages.chat().page
    window.topbar.strip.setChecked(True)
    ask(qtbot, window, "hello")
    idle(qtbot, window)
    page.notice.show_message("Look", "details")
    page.turns[0].answer.canvas_toggle.click()
    controls = focusable(window)
    unnamed = [widget for widget in controls if not widget.accessibleName()]
    assert not unnamed
    wanted = {
        widget
        for widget in controls
        if widget.isVisible() and widget.isEnabled() and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
    }
    reached: set[QWidget] = set()
    visited: list[QWidget] = []
    window.activateWindow()
    window.topbar.chooser.setFocus()
    for _ in range(4 * len(controls)):
        focus = QApplication.focusWidget()
        assert focus is not None
        if focus in reached and focus is window.topbar.chooser:
            break
        reached.add(focus)
        visited.append(focus)
        qtbot.keyClick(focus, Qt.Key.Key_Tab)
    order = [widget.accessibleName() for widget in visited]
    assert order[:4] == ["Model", "Sampler", "Settings", "New chat"]
    middle = ["Conversation", "Canvas of block 1", "Regenerate the answer", "Copy the answer"]
    below = ["Attach files", "Preset", "Send the prompt", "Entropy bound, nats"]
    assert [name for name in dict.fromkeys(order) if name in (*middle, *below)] == [*middle, *below]
    missed = [widget.accessibleName() for widget in wanted - reached]
    assert not missed


LATER = (
    *("torch", "psutil", "qtawesome", "importlib.metadata"),
    *("markdown_it", "mdit_py_plugins", "pygments", "ziamath", "PySide6.QtSvg"),
    *("app.chat.messages.turn", "app.models.page", "app.settings.dialog", "app.window.palette"),
)


def test_the_window_is_painted_before_what_it_does_without_is_imported() -> None:
    code = (
        "import sys; from app.main import MainWindow, measure_first_paint; early = []; "
        f"look = lambda _window: early.extend(name for name in {LATER} if name in sys.modules); "
        "MainWindow._after_first_paint = look; print(measure_first_paint(), early)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    seconds, _, early = done.stdout.partition(" ")
    assert 0 < float(seconds) < 60
    assert early == "[]\n"

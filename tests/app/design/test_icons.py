"""Icons come late and in their colour."""

from __future__ import annotations

import subprocess
import sys

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QIcon
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.design import icons
from app.design.tokens import DARKROOM


def shades(icon: QIcon) -> set[str]:
    """The colours of all opaque pixels."""
    image = icon.pixmap(QSize(32, 32)).toImage()
    found = [image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height())]
    return {shade.name() for shade in found if shade.alpha() == 255}


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(icons, "_font", None)


@pytest.mark.usefixtures("unloaded")
def test_a_button_waits_for_its_icon(qtbot: QtBot) -> None:
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


@pytest.mark.usefixtures("qapp")
def test_an_unknown_icon_is_a_fault_of_the_program() -> None:
    with pytest.raises(ValueError, match="no icon 'does-not-exist'"):
        icons.icon("does-not-exist", "#ffffff")


def test_what_the_window_imports_leaves_the_family_alone() -> None:
    code = (
        "import sys, app.design.icons, app.settings.dialog, app.window.palette, app.window.shortcuts;"
        "import app.window.statusbar, app.system.crash_handler, app.system.logs;"
        "print([name for name in ('qtawesome', 'qtpy', 'torch', 'psutil', 'platformdirs') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

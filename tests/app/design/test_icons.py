"""Icons come late and in their colour."""

from __future__ import annotations

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

"""The inspector's page and its player, by themselves."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.design import motion
from app.inspector.page import InspectorPage
from app.player.player import Player
from tests.app.canvas.pointing import shown


@pytest.fixture
def page(qtbot: QtBot) -> InspectorPage:
    """The page without a run and without motion."""
    motion.set_reduced(True)
    return shown(qtbot, InspectorPage(), 1280, 800)


@pytest.fixture
def player(qapp: QApplication) -> Player:
    assert qapp  # its timer needs one
    return Player()

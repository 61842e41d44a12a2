"""A library on the disk, and a session over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.library import Library
from engine import MINI
from tests.app.desk import Desk


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    library = Library.open(tmp_path)
    yield library
    library.close()


@pytest.fixture
def desk(qtbot: QtBot, fake: Any, library: Library) -> Iterator[Desk]:
    desk = Desk(fake, library)
    desk.slot.load(MINI)
    qtbot.waitUntil(lambda: desk.model is not None)
    yield desk
    fake.gate.release(1000)
    desk.link.shutdown()
    desk.session.close()

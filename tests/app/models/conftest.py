"""The models page with a context that only notes what is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.models.controller import ModelsController
from tests.app.models.contexts import SOON, NotingContext


@pytest.fixture
def open_page(qtbot: QtBot, tmp_path: Path, settings: QSettings) -> Iterator[Callable[..., ModelsController]]:
    """Opens the page; one that was open is closed first."""
    opened: list[ModelsController] = []

    def make(*, is_shown: bool = True, **options: Any) -> ModelsController:
        for models in opened:
            models._context.close()
        context: Any = NotingContext(tmp_path / "models", settings)
        models = ModelsController(context, **({"published": ()} | options))
        qtbot.addWidget(models.page)
        opened.append(models)
        models.page.resize(900, 900)
        models.refresh()
        if is_shown:  # which looks for models of other programs
            models.page.show()
            qtbot.waitUntil(lambda: models.jobs.phase("", "find") is None, timeout=SOON)
        return models

    yield make
    for models in opened:
        models._context.close()
        qtbot.waitUntil(lambda: not models.jobs.is_alive, timeout=SOON)  # noqa: B023

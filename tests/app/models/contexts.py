"""The context of the models page without an engine, which only notes what is asked of it; and the rows of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

from PySide6.QtCore import QObject, QSettings, Qt, Signal
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from app.bridge.remote_access import RemoteAccess
from app.models.controller import ModelsController
from app.models.rows import ModelRow
from engine.memory.machine import Machine

SOON = 60_000  # milliseconds: the first plan of a process builds the libraries in C


class NotingContext(QObject):
    """Stands in for ``AppContext``."""

    load_asked = Signal(str)
    unload_asked = Signal()
    models_changed = Signal(object)
    changed = Signal()
    offline_changed = Signal()

    def __init__(self, folder: Path, settings: QSettings) -> None:
        super().__init__()
        self.folders, self.settings, self.remote = SimpleNamespace(models=folder), settings, RemoteAccess()
        self.preferences = SimpleNamespace(offline=False)
        self.machine: Callable[[], Machine] = lambda: Machine(16 * 2**30)
        self.model: SimpleNamespace | None = None
        self.loading: SimpleNamespace | None = None
        self.slot = self  # a context and its slot in one
        self.models: Sequence[tuple[str, str]] = ()
        self._endings: list[Callable[[], object]] = []

    def at_end(self, ending: Callable[[], object]) -> None:
        self._endings.append(ending)

    def close(self) -> None:
        for ending in self._endings:
            ending()

    def offer(self, models: Sequence[tuple[str, str]]) -> None:
        self.models = models
        self.models_changed.emit(models)

    def load(self, path_or_id: str) -> None:
        self.load_asked.emit(path_or_id)

    def unload(self) -> None:
        self.unload_asked.emit()

    def show_loaded(self, path_or_id: str | None, loading: str | None = None) -> None:
        """Has a model loaded, or one that is being loaded."""
        self.model, self.loading = (
            None if each is None else SimpleNamespace(path_or_id=each) for each in (path_or_id, loading)
        )
        self.changed.emit()

    def set_offline(self, offline: bool) -> None:
        self.preferences.offline = self.remote.is_offline = offline
        self.offline_changed.emit()


def offered(row: ModelRow) -> list[str]:
    return [action for action, made in row.buttons.items() if made.isVisibleTo(row)]


def press(qtbot: QtBot, row: ModelRow, action: str) -> None:
    assert action in offered(row)
    qtbot.mouseClick(row.buttons[action], Qt.MouseButton.LeftButton)  # type: ignore[index]


def until(qtbot: QtBot, row: ModelRow, *expected: str) -> None:
    qtbot.waitUntil(lambda: offered(row) == list(expected), timeout=SOON)


def answer(qtbot: QtBot, models: ModelsController, text: str) -> str:
    """Presses a button of the question that is open; returns the question."""
    box = models.question
    assert isinstance(box, QMessageBox)
    asked = box.text()
    made = next(made for made in box.buttons() if made.text() == text)
    qtbot.mouseClick(made, Qt.MouseButton.LeftButton)
    return asked

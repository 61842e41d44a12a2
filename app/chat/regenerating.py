"""Answers a turn again by another model, which is loaded for that."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Slot

from app.context import AppContext
from app.state.chat.conversation import Turn


class Regenerating(QObject):
    """Loads the model that was chosen. ``again`` answers a turn with it, or the part of it with an id."""

    def __init__(self, context: AppContext, page: QObject, again: Callable[[Turn, str], object]) -> None:
        super().__init__(page)
        self._context, self._again = context, again
        self._waiting: tuple[Turn, str] | None = None  # the turn, and the model that is loaded for it
        context.busy_changed.connect(self._go_on)
        context.session.path_changed.connect(self._path_changed)

    def ask_with(self, turn: Turn, path_or_id: str) -> None:
        """Answers a turn by a model, which is loaded for that and stays."""
        self._context.load(path_or_id)
        self._waiting = turn, path_or_id

    @Slot()
    def _go_on(self) -> None:
        if self._waiting is None:
            return
        turn, model = self._waiting
        if self._context.present != model:
            self._waiting = None  # loading failed, or another model was chosen
        elif not self._context.reason_to_wait():
            self._waiting = None
            self._again(turn, model)

    @Slot()
    def _path_changed(self) -> None:
        self._waiting = None

"""Answers a turn again by the small models, which are loaded for that."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Slot

from app.context import AppContext
from app.state.chat.conversation import Turn
from engine.catalog import SMALL


class Regenerating(QObject):
    """``again`` answers a turn with the part that has an id, or with the one that is for it."""

    def __init__(self, context: AppContext, page: QObject, again: Callable[[Turn, str], object]) -> None:
        super().__init__(page)
        self._context, self._again = context, again
        self._waiting: tuple[Turn, str] | None = None  # the turn, and the part that is wanted
        context.busy_changed.connect(self._go_on)
        context.session.path_changed.connect(self._path_changed)

    def ask_with(self, turn: Turn, part: str) -> None:
        """Loads the small models, which stay, and lets one of them answer a turn."""
        self._context.load(SMALL)
        self._waiting = turn, part

    @Slot()
    def _go_on(self) -> None:
        if self._waiting is None:
            return
        turn, part = self._waiting
        if self._context.present != SMALL:
            self._waiting = None  # loading failed, or another model was chosen
        elif not self._context.reason_to_wait():
            self._waiting = None
            self._again(turn, part)

    @Slot()
    def _path_changed(self) -> None:
        self._waiting = None

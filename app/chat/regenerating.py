"""Answers a turn again, also by another model, which is loaded for that."""

from __future__ import annotations

import os
from collections.abc import Callable

from PySide6.QtCore import QObject, Slot

from app.context import AppContext, ModelChoice
from app.state.chat.conversation import Answer, Turn
from engine.catalog import installed
from engine.service import AdapterChanged, ServiceReply


class Regenerating(QObject):
    """Loads the model that was chosen. ``again`` answers a turn with the loaded model."""

    def __init__(self, context: AppContext, page: QObject, again: Callable[[Turn], object]) -> None:
        super().__init__(page)
        self._context, self._again = context, again
        self._waiting: tuple[Turn, ModelChoice] | None = None  # the turn, and the model that is loaded for it
        context.arrived.connect(self._take)
        context.busy_changed.connect(self._go_on)
        context.session.path_changed.connect(self._path_changed)

    @property
    def is_waiting(self) -> bool:
        """True if a turn is to be answered as soon as a model is loaded."""
        return self._waiting is not None

    def ask_with(self, turn: Turn, path_or_id: str, adapter: str | None = None) -> None:
        """Answers a turn by a model, which is loaded for that; afterwards the user's own answers again."""
        context, choice = self._context, ModelChoice(path_or_id, adapter)
        self._waiting = turn, choice
        if choice == context.choice:
            self._go_on()
        elif context.is_auto and adapter is None:
            context.route(path_or_id)
        else:
            context.borrow(path_or_id, adapter)

    def ask(self, turn: Turn) -> None:
        """Answers a turn again: by the loaded model, or in *auto* by the one that wrote the answer."""
        self._waiting = None
        writer = self._writer(turn.answer) if self._context.is_auto else None
        if writer is not None:
            self.ask_with(turn, writer.path_or_id, writer.adapter)
        else:
            self._again(turn)

    def _writer(self, answer: Answer) -> ModelChoice | None:
        """Returns the model that wrote an answer; None if it is not installed or not known."""
        known = {*dict(self._context.models), *(model.id for model in installed())}
        is_here = answer.model in known or os.path.isfile(os.path.join(answer.model, "config.json"))
        return ModelChoice(answer.model, answer.adapter) if is_here and answer.model else None

    def _regenerate(self, turn: Turn) -> None:
        if any(shown is turn for shown in self._context.session.chat.turns):
            self._again(turn)

    @Slot(object)
    def _take(self, replies: list[ServiceReply]) -> None:
        if any(isinstance(reply, AdapterChanged) and reply.message for reply in replies):
            self._waiting = None  # the adapter could not be loaded, and the context has said why

    @Slot()
    def _go_on(self) -> None:
        if self._waiting is None:
            return
        turn, choice = self._waiting
        there = self._context.loading or self._context.model
        if there is None or there.path_or_id != choice.path_or_id:
            self._waiting = None  # loading failed, or another model was chosen
        elif self._context.choice == choice and not self._context.reason_to_wait():
            self._waiting = None
            self._regenerate(turn)

    @Slot()
    def _path_changed(self) -> None:
        self._waiting = None

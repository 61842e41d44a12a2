"""Answers a turn again, also by another model. If it is not clear which model to use, asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Slot

from app.context import AppContext, ModelChoice
from app.design.notice import Notice
from app.session.session import title_of
from app.state.chat.conversation import Answer, Turn
from app.system.i18n import tr
from engine.catalog import installed
from engine.service import AdapterChanged, ServiceReply


class Regenerating(QObject):
    """Asks and loads the model that was chosen. ``again`` answers a turn with the loaded model."""

    def __init__(self, context: AppContext, notice: Notice, again: Callable[[Turn], object]) -> None:
        super().__init__(notice)
        self._context, self._notice, self._again = context, notice, again
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
        """Answers a turn again by the model that wrote the answer, or asks if another one is loaded."""
        self._waiting = None
        model, answer = self._context.model, turn.answer
        if model is None:
            return
        if self._context.is_auto and (writer := self._writer(answer)) is not None:
            self.ask_with(turn, writer.path_or_id, writer.adapter)
            return
        wrote, now = self._writer(answer), title_of(model)
        if not answer.model_title or wrote == self._context.choice:
            self._again(turn)
            return
        choices = [(tr("Regenerate with {model}", model=now), partial(self._regenerate, turn))]
        if wrote is None:
            text = tr(
                "{model} wrote this answer and is not here; {other} is loaded.", model=answer.model_title, other=now
            )
        else:
            text = tr("{model} wrote this answer; {other} is loaded.", model=answer.model_title, other=now)
            title = tr("Load {model} and regenerate", model=answer.model_title)
            choices.insert(0, (title, partial(self._load, turn, wrote)))
        self._notice.show_question(text, choices)

    def _writer(self, answer: Answer) -> ModelChoice | None:
        """Returns the model that wrote an answer; None if it is not installed.

        Answers stored by earlier versions have only the model's title.
        """
        known = [*self._context.models, *((model.id, model.title) for model in installed())]
        loaded = self._context.model
        if loaded is not None:
            known.append((loaded.path_or_id, loaded.title))
        if not answer.model:
            path = next((path for path, title in known if title == answer.model_title), None)
            return None if path is None else ModelChoice(path)
        is_here = answer.model in dict(known) or os.path.isfile(os.path.join(answer.model, "config.json"))
        return ModelChoice(answer.model, answer.adapter) if is_here else None

    def _load(self, turn: Turn, choice: ModelChoice) -> None:
        self._waiting = turn, choice
        self._context.load(choice.path_or_id, choice.adapter)

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
        if self._notice.is_asking:
            self._notice.hide()

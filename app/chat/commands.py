"""The commands on a turn: its buttons call them without going through the views around them. Knows no widgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QObject, Signal

import engine
from app.context import AppContext, Waiting
from app.design.fonts import text_percent
from app.library.pictures import PictureStore
from app.pictures.source import PictureSource
from app.state.chat.calls import Decision, ToolCall, ToolRound
from app.state.chat.conversation import Answer, Turn
from app.state.chat.rewriting import Rewriting, can_fill, of_selection
from app.system.i18n import tr
from engine import Recording, SafelightError, catalog
from engine.catalog import SMALL, TALK
from engine.files import is_bare_name
from engine.service.small import part_for


@dataclass(frozen=True)
class ViewOptions:
    """The user's choices of how things are drawn."""

    calm: bool
    pace: str = "1"  # speed of replays, a value of the declared setting
    pictures: PictureSource = field(default_factory=lambda: PictureSource(PictureStore(None).get))
    percent: int = field(default_factory=text_percent)  # size of text


class TurnCommands(QObject):
    """Carries out what a person asks of a turn, or says why it cannot be done."""

    said = Signal(str)  # why something cannot be done
    removed = Signal(str)  # what was deleted, in a sentence; it can be put back
    acted = Signal()  # the button that had the focus may be gone
    quoted = Signal(str)  # a text that is to be quoted in the prompt
    rewritten = Signal(object)  # the Turn of an answer that is being written again in part

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context, self._session = context, context.session
        self.stop, self.choose_pace = self._session.stop, context.choose_pace
        self.choose_answer, self.choose_prompt = self._session.choose_answer, self._session.choose_prompt
        self._loading = Waiting(context, self)  # for the small models, one of which is to answer
        self._session.path_changed.connect(self._loading.end)

    def say(self, reason: str) -> None:
        """Says why something cannot be done now; the reason why no prompt can be sent is shown anyway."""
        self.said.emit("" if reason == self._context.reason_to_wait() else reason)

    def can_ask(self) -> bool:
        """Returns True if a prompt can be sent, and says why not; skips to the end of what is only being shown."""
        if self._context.backend.pacing.is_computed:
            self._context.stop()
        reason = self._context.reason_to_wait()
        if reason:
            self.say(reason)
        return not reason

    def attempt(self, work: Callable[[], None]) -> bool:
        """Does a work that may be refused, and says why; returns False then."""
        try:
            work()
        except SafelightError as error:
            self.said.emit(str(error))
            return False
        self._context.busy_changed.emit()
        return True

    def again(self, turn: Turn, model: str = "") -> None:
        """Answers a turn again with another seed, by the part ``model`` of the loaded one, or the one that wrote it."""
        loaded = self._context.model
        if self.can_ask() and loaded is not None:
            self.attempt(lambda: self._session.ask_again(turn, loaded.part(model or turn.answer.model)))
            self.acted.emit()

    def others(self, turn: Turn) -> list[str]:
        """Returns the ids of the models that could answer a turn instead of the one that did, the best first."""
        model, chat = self._context.model, self._session.chat
        messages = chat.messages(turn) if turn in chat.turns else (turn.message,)
        parts = [part_for(messages, [tool.called for tool in self._context.tools.offered])]
        if TALK.is_here and not turn.pictures and TALK.id not in parts:
            parts.append(TALK.id)
        parts = [part for part in parts if part != turn.answer.model]
        return parts if model is None or model.parts else [SMALL] if parts else []

    def ask_other(self, turn: Turn, model: str) -> None:
        """Answers a turn by a part of the small models, which are loaded for that if necessary, and stay; by its id."""
        loaded = self._context.model
        if loaded is not None and loaded.part(model) is not loaded:
            self.again(turn, model)
        elif self.can_ask():
            self._context.load(SMALL)
            self._loading.wait_for(SMALL, lambda: self.again(turn, model))

    def edit(self, turn: Turn, text: str) -> None:
        """Sends another version of a prompt."""
        model = self._context.model
        if self.can_ask() and model is not None:
            self.attempt(lambda: self._session.edit(turn, text, model))

    def can_change(self, turn: Turn) -> bool:
        """Returns True if a model is here that can write parts of a turn's answer again."""
        model = self._context.model
        if model is not None and model.parts:
            return catalog.traits(turn.answer.model).wants_wording  # what others write is new to the one that fills
        return model is not None and can_fill(model)

    def rewrite(self, turn: Turn, how: Rewriting) -> None:
        """Writes the shown answer of a turn again, as another version."""
        model = self._context.model
        if self.can_ask() and model is not None and any(shown is turn for shown in self._session.chat.turns):
            self.attempt(lambda: self._session.ask_again(turn, model, how))
            self.rewritten.emit(turn)

    def go_on(self, turn: Turn) -> None:
        """Writes the shown answer of a turn on from its end, as another version."""
        text = turn.answer.text
        self.rewrite(turn, of_selection("continue", text, len(text), len(text)))

    def put(self, turn: Turn, text: str) -> None:
        """Makes a text the newest version of a turn's answer."""
        self.attempt(lambda: self._session.put(turn, text))

    def delete(self, turn: Turn) -> None:
        """Deletes a turn and what follows it."""
        if self.attempt(lambda: self._session.remove(turn)):
            self.removed.emit(tr("Deleted the prompt, its answer and what followed."))

    def delete_answer(self, turn: Turn, index: int) -> None:
        """Deletes a version of an answer and what follows it."""
        if self.attempt(lambda: self._session.remove_answer(turn, index)):
            self.removed.emit(tr("Deleted the answer and what followed."))

    def decide(self, call: ToolCall, decision: Decision) -> None:
        """Takes the user's decision about a call of a tool."""
        self.attempt(lambda: self._session.calls.decide(call, decision))
        self.acted.emit()

    def run_of(self, answer: Answer | ToolRound) -> Recording | Path:
        """Returns the run of an answer, or of a round of its calls, in memory or as its file.

        Raises:
            SafelightError: it was not kept.
        """
        path = self._context.folders.traces / f"{answer.trace_id}{engine.TRACE_SUFFIX}"
        if answer.trace is not None:
            return answer.trace
        if is_bare_name(answer.trace_id) and path.is_file():
            return path
        raise SafelightError(tr("The run of this answer was not kept, or was deleted."))

    def inspect(self, answer: Answer | ToolRound, place: int = -1) -> None:
        """Opens the run of an answer, or of a round of its calls, in the inspector: at a frame, or its first step."""
        self.attempt(lambda: self._context.navigator.inspect(self.run_of(answer), place))

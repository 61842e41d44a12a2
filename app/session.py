"""Asking: the conversation on show, the answer under way, and what of both is kept. Draws nothing.

An answer goes on developing while another conversation is on show; it is folded into its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot

from app.keeper import Keeper
from app.language import tr
from app.library import Library, title_of
from app.messages import LoadedModel, Message, RunFailed, RunRequest, RunStarted
from app.presets.preset import DEFAULT
from app.settings.values import SettingsValues
from app.state.attachment import Attachment
from app.state.chat_state import Answer, ChatState, Turn
from app.state.versions import Versions
from app.worker import EngineLink
from engine import GenerationConfig, SafelightError


@dataclass(frozen=True)
class _Run:
    """The answer under way."""

    conversation: int | None
    chat: ChatState
    turn: Turn
    answer: Answer
    model: LoadedModel


@dataclass(frozen=True)
class _Removed:
    """What was deleted last, a turn or a version of an answer, and where it was."""

    chat: ChatState
    branch: Versions[Any]
    item: Turn | Answer
    place: int


def reserve(config: GenerationConfig, model: LoadedModel) -> int:
    """Tokens of the context that are held back for an answer: whole canvases, half of the context at most.

    A longer answer than that ends where the context does.
    """
    blocks = -(-config.max_new_tokens // model.canvas_length)
    return max(model.canvas_length, min(blocks * model.canvas_length, model.context // 2))


class Session(QObject):
    """One conversation on show, at most one answer under way."""

    path_changed = Signal()  # other turns are on show
    progressed = Signal()  # the answer under way has moved on, and is on show
    ended = Signal()  # a run has ended; ``progressed`` came before where it is on show
    listed = Signal()  # the library's list of conversations has changed
    returned = Signal(str, object)  # a prompt that could not be asked, and its attachments: back into the composer
    failed = Signal(str, str)  # what went wrong in a sentence, and details

    def __init__(self, library: Library, link: EngineLink, values: SettingsValues) -> None:
        super().__init__()
        self.library = library
        self.chat = ChatState()
        self.conversation: int | None = None  # None until the first prompt is asked
        self.think = False
        self.preset = DEFAULT
        self._keeper = Keeper(library)
        self._link = link
        self._values = values
        self._run: _Run | None = None
        self._removed: _Removed | None = None
        self._cannot_keep = False  # said once, until something can be stored again

    # ---------------------------------------------------------------- which conversation

    def begin(self, system_prompt: str = "") -> None:
        """Show a new, empty conversation; it enters the library with its first prompt."""
        self.conversation = None
        self.chat = ChatState(system_prompt=system_prompt)
        self._removed = None
        self.path_changed.emit()

    def open(self, conversation: int) -> None:
        """Show a stored conversation; the one that is being answered as it is now."""
        try:
            running = self._run is not None and self._run.conversation == conversation
            self.chat = self._run.chat if running and self._run is not None else self._keeper.open(conversation)
            self.preset = self.library.conversation(conversation).preset
        except SafelightError as error:
            self.failed.emit(str(error), "")
            return
        self.conversation = conversation
        self._removed = None
        self.path_changed.emit()

    def describe(self, *, system_prompt: str, preset: str, think: bool) -> None:
        """Ask otherwise from now on, by the preset of that id."""
        self.chat.system_prompt, self.preset, self.think = system_prompt, preset, think
        if self.conversation is not None:
            self._keep(
                lambda id=self.conversation: self.library.describe(id, system_prompt=system_prompt, preset=preset)
            )

    @property
    def active(self) -> Answer | None:
        """The answer under way, on show or not."""
        return self._run.answer if self._run is not None and self._run.answer.is_active else None

    @property
    def active_conversation(self) -> int | None:
        """The conversation that is being answered."""
        return self._run.conversation if self._run is not None and self.active is not None else None

    # ---------------------------------------------------------------- asking

    def ask(self, prompt: str, attachments: tuple[Attachment, ...], model: LoadedModel) -> None:
        """Ask a prompt at the end of the path.

        Raises:
            SafelightError: the settings do not go together. Whether the conversation fits the model is seen in the
                engine's thread; if it does not, the run fails and the prompt is ``returned``.
        """
        turn = self.chat.ask(prompt, self._new_answer(model), attachments)
        self._start(turn, model)

    def ask_again(self, turn: Turn, model: LoadedModel) -> None:
        """Answer a turn on the path once more, with another seed. Raises as ``ask``."""
        self.chat.ask_again(turn, self._new_answer(model, len(turn.answers)))
        self._start(turn, model)

    def edit(self, turn: Turn, prompt: str, model: LoadedModel) -> None:
        """Ask another version of a turn's prompt, on a branch of its own. Raises as ``ask``."""
        self._start(self.chat.edit(turn, prompt, self._new_answer(model)), model)

    def _new_answer(self, model: LoadedModel, version: int = 0) -> Answer:
        return Answer(model.title, self._values.next_seed(version), self._values.config(model.defaults))

    def _start(self, turn: Turn, model: LoadedModel) -> None:
        chat, answer = self.chat, turn.answer
        self._removed = None
        self._keep(lambda: self._store(turn, model))
        self._run = _Run(self.conversation, chat, turn, answer, model)
        room = reserve(answer.config, model)
        self._link.run(RunRequest(chat.messages(turn), answer.config, answer.seed, self.think, room))
        self.path_changed.emit()
        self.listed.emit()

    def _store(self, turn: Turn, model: LoadedModel) -> None:
        if self.conversation is None:
            self.conversation = self.library.create(
                title=title_of(turn.prompt),
                system_prompt=self.chat.system_prompt,
                preset=self.preset,
                model=model.path_or_id,
            )
        self._keeper.ask(self.conversation, self.chat, turn)

    @Slot()
    def stop(self) -> None:
        """Stop the answer under way within one denoising step; what it has so far stays."""
        self._link.cancel()

    # ---------------------------------------------------------------- what arrives

    def take(self, messages: list[Message]) -> None:
        """Fold what arrived of a run, store it and tell once."""
        run = self._run
        if run is None:
            return
        was_active = run.answer.is_active
        for message in messages:
            match message:
                case RunStarted(trace):
                    run.answer.trace = trace
                    run.answer.trace_id = trace.header.id if trace.path is not None else ""
                case RunFailed(text, details):
                    self._fail(run, text, details)
                case _:
                    run.chat.fold(message, run.model.decode)  # type: ignore[arg-type]
        if not was_active:
            return
        self._keep(lambda: self._keeper.keep(run.answer, run.model.decode))
        if run.chat is self.chat:
            self.progressed.emit()
        if not run.answer.is_active:
            self._run = None
            self.ended.emit()
            self.listed.emit()

    def _fail(self, run: _Run, text: str, details: str) -> None:
        developing = run.answer.status == "developing"
        turn = run.chat.fail(text, run.model.decode)
        if not developing:
            run.answer.status = "failed"
            self._keep(lambda: self._keeper.remove(turn or run.answer))
        self.failed.emit(text, details)
        if turn is not None:
            self.returned.emit(turn.prompt, turn.attachments)
        if not developing and run.chat is self.chat:
            self.path_changed.emit()

    # ---------------------------------------------------------------- versions and deletion

    @Slot(object, int)
    def choose_answer(self, turn: Turn, index: int) -> None:
        """Put another version of an answer on show, with what follows it."""
        turn.answers.show(index)
        self._keep(lambda: self._keeper.show(turn.answer))
        self.path_changed.emit()

    @Slot(object, int)
    def choose_prompt(self, turn: Turn, index: int) -> None:
        """Put another version of a prompt on show, with what follows it."""
        branch = self.chat.alternatives(turn)
        branch.show(index)
        if branch.current is not None:
            self._keep(lambda shown=branch.current: self._keeper.show(shown))
        self.path_changed.emit()

    def remove(self, turn: Turn) -> None:
        """Delete a turn on the path with all that follows it; ``undo_remove`` brings it back.

        Raises:
            SafelightError: an answer of this conversation is under way.
        """
        self._remove(self.chat.alternatives(turn), turn)

    def remove_answer(self, turn: Turn, index: int) -> None:
        """Delete a version of an answer with all that follows it; the only one takes its turn along. As ``remove``."""
        if len(turn.answers) == 1:
            self.remove(turn)
        else:
            self._remove(turn.answers, turn.answers.items[index])

    def _remove(self, branch: Versions[Any], item: Turn | Answer) -> None:
        if self.chat.active is not None:
            raise SafelightError(tr("Stop the answer first; it may follow what you delete."))
        self._removed = _Removed(self.chat, branch, item, branch.remove(item))
        self._keep(lambda: self._keeper.remove(item))
        self.path_changed.emit()

    @Slot()
    def undo_remove(self) -> None:
        """Bring back what was deleted last, if nothing was asked since."""
        removed, self._removed = self._removed, None
        if removed is None or removed.chat is not self.chat:
            return
        removed.branch.put_back(removed.item, removed.place)
        self._keep(lambda: self._keeper.put_back(removed.item))
        self.path_changed.emit()

    # ---------------------------------------------------------------- keeping

    def close(self) -> None:
        """Store what is there and close the library; what was deleted is gone then."""
        run = self._run
        if run is not None:
            self._keep(lambda: self._keeper.keep(run.answer, run.model.decode))
        self._keep(self.library.purge)
        self.library.close()

    def _keep(self, write: Callable[[], None]) -> None:
        """Store something; where that fails it is said, and the conversation goes on in memory."""
        try:
            write()
        except SafelightError as error:
            if not self._cannot_keep:
                self.failed.emit(str(error), "")
            self._cannot_keep = True
        else:
            self._cannot_keep = False

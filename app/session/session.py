"""The shown conversation, the current answer, and saving both. Draws nothing.

An answer continues while another conversation is shown; its events go to its own conversation. Changes that cannot be
written now, as another program locks the library or the disk is full, are queued in order and retried.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background
from app.bridge.engine_thread import EngineLink, RunHandle
from app.library import Library, LibraryError
from app.library.conversations import ConversationStore
from app.presets.store import DEFAULT
from app.session.calling import Calling
from app.session.saving import Saving, bring_in
from app.session.turn_request import TurnRequests, behind_calls, cannot_see
from app.settings.values import SettingsValues
from app.state.chat.attachment import AttachedPicture, Attachment
from app.state.chat.conversation import Answer, ChatState, Turn, user_message
from app.state.chat.prompts import prepare, prepare_with_files
from app.state.chat.rewriting import Rewriting, can_fill, of_prompt
from app.state.chat.versions import Versions
from app.system.i18n import tr
from app.tools.toolbox import Toolbox
from engine import Event, Recording, SafelightError
from engine.service import ChatRun, LoadedModel, PromptRead, RunRequest, ServiceReply
from engine.tools.tool import Tool


@dataclass(frozen=True)
class _Run:
    """The current answer."""

    handle: RunHandle
    chat: ChatState
    turn: Turn
    answer: Answer
    model: LoadedModel
    is_first: bool  # it began its conversation
    tools: tuple[Tool, ...] = ()  # that the model was offered


class Session(QObject):
    """The shown conversation, and at most one running answer."""

    path_changed = Signal()  # the shown turns have changed
    found = Signal(object, str)  # the Turn that a search has found, which is shown; the query
    progressed = Signal(float)  # the current answer, which is shown, has news, with a ``share`` of its latest step
    settled = Signal()  # the shown answer has ended
    revealed = Signal(float)  # another share (0 to 1) of its latest step is shown
    ended = Signal()  # a run has ended; ``settled`` came first if it is shown
    listed = Signal()  # the library's list of conversations has changed
    returned = Signal(object, str)  # a turn that failed before it began, for the composer; why, or "" if reported
    failed = Signal(str, str)  # a sentence, and details

    def __init__(
        self, library: Library, link: EngineLink, values: SettingsValues, toolbox: Toolbox | None = None
    ) -> None:
        super().__init__()
        self.calls = Calling(toolbox)
        self.calls.changed.connect(self._show_calls)
        self.calls.ended.connect(self._go_on)
        self.requests = TurnRequests(values, library.pictures, self.calls)
        self.library = library
        self.chat = ChatState(preset=DEFAULT)
        self.think = False
        self._stored = ConversationStore(library)
        self.saving = Saving(self._stored, lambda problem: self.failed.emit(problem, ""))
        self.saving.problem_changed.connect(self._saved_or_not)
        self._keep = self.saving.keep
        self._link = link
        self._run: _Run | None = None
        self._put_back: Callable[[], None] | None = None  # restores what was deleted last
        self._pictures: object = ()  # of the shown conversation; keeps them in memory for the next prompt
        self._fetching = Background(self, self._fetched)
        self._is_closed = False
        library.notice = " ".join(said for said in (library.notice, bring_in(library)) if said)

    @property
    def conversation(self) -> int | None:
        """The library's id of the shown conversation; None until its first prompt is stored."""
        return self.chat.id

    def open_new(self, system_prompt: str = "") -> None:
        """Shows a new, empty conversation; it is stored with its first prompt."""
        self.chat = ChatState(system_prompt=system_prompt, preset=self.chat.preset)
        self._put_back = None
        self._fetch()
        self.path_changed.emit()

    def open(self, conversation: int, message: int | None = None, query: str = "") -> None:
        """Shows a stored conversation; if it has a running answer or unsaved changes, the one in memory.

        With a ``message``, its versions are shown, and ``found`` follows with the query that found it.
        """
        in_memory = self.saving.chats if self._run is None else [self._run.chat, *self.saving.chats]
        chat = next((chat for chat in in_memory if chat.id == conversation), None)
        try:
            self.chat = chat or self._stored.open(conversation)
        except SafelightError as error:
            self.failed.emit(str(error), "")
            return
        self._put_back = None
        turn: Turn | None = None
        for branch, place in self.chat.path_to(message) if message is not None else ():
            turn = branch.items[place] if isinstance(branch.items[place], Turn) else turn
            if branch.shown != place:
                branch.show(place)
                self._keep("show", branch, self.chat, partial(self._stored.show, branch.items[place]))
        self._fetch()
        self.path_changed.emit()
        if turn is not None:
            self.found.emit(turn, query)

    def _fetch(self) -> None:
        """Reads the pictures of the shown conversation in the background."""
        self._pictures, turns = (), [turn for turn in self.chat.turns if turn.pictures]
        self._fetching.drop()
        if turns:
            self._fetching.ask(lambda: self.library.pictures.of(turns))

    @Slot(object)
    def _fetched(self, pictures: object) -> None:
        self._pictures = pictures

    def describe(self, *, system_prompt: str, preset: str, think: bool) -> None:
        """Uses this system prompt, preset id and thinking from now on."""
        chat = self.chat
        chat.system_prompt, chat.preset, self.think = system_prompt, preset, think
        self._keep("describe", chat, chat, lambda: self._stored.describe(chat))

    @property
    def active(self) -> Answer | None:
        """The current answer, shown or not."""
        return self._run.answer if self._run is not None and self._run.answer.is_active else None

    @property
    def active_conversation(self) -> int | None:
        return self._run.chat.id if self._run is not None and self.active is not None else None

    def reason_to_wait(self) -> str:
        """Returns a sentence if an answer is running; empty if none is."""
        if self.active is None:
            return ""
        if self._run is not None and self._run.handle.is_computed:
            return tr("An answer is still being shown; Esc skips to its end")
        if self.chat.active is None:
            return tr("An answer is being written in another conversation; Esc stops it")
        return tr("The answer is being written; Esc stops it")

    def ask(
        self,
        text: str,
        attachments: tuple[Attachment, ...],
        model: LoadedModel,
        pictures: tuple[AttachedPicture, ...] = (),
        rewriting: Rewriting | None = None,
    ) -> None:
        """Sends a prompt at the end of the path, to the part of the model that it is for, in the form that it reads.
        Without ``pictures``, those that ``TurnRequests.carried`` returns go with it.

        The answer to a prompt with gaps is that text, filled in by a model that can; ``rewriting`` says otherwise.

        The pictures must be in the library. The engine's thread checks later that the prompt fits the model; if it does
        not, the run fails and the prompt is ``returned``.

        Raises:
            SafelightError: there is no text, the settings are inconsistent, the model cannot read the text or the
                pictures, or another window is answering the conversation.
        """
        asked, prompt = user_message(text, attachments, pictures), text
        model = self.requests.part(self.chat, model, asked, rewriting=rewriting)
        if rewriting is None:
            prompt, attachments = prepare_with_files(model.traits, text, attachments, len(pictures))
        answer = self.requests.new_answer(model, rewriting=rewriting)
        turn = self.chat.ask(prompt, answer, attachments, pictures or self.requests.carried(self.chat, model))
        self._start(turn, model)

    def ask_again(self, turn: Turn, model: LoadedModel, rewriting: Rewriting | None = None) -> None:
        """Answers a turn on the path again, with another seed, in the same manner or by ``rewriting``.

        Raises like ``ask``.
        """
        rewriting = rewriting or turn.answer.rewriting
        model = self.requests.part(self.chat, model, turn.message, turn, rewriting)
        answer = self.requests.new_answer(model, len(turn.answers), rewriting)
        self.chat.ask_again(turn, answer)
        self._start(turn, model)

    def put(self, turn: Turn, text: str) -> None:
        """Adds a version with a text that a person made of the shown answer, and shows it.

        Raises:
            SafelightError: an answer is running, here or in another window.
        """
        chat, answer = self.chat, turn.answer.with_text(text)
        if chat.active is not None:
            raise SafelightError(self.reason_to_wait())
        if problem := self._claim(chat):
            raise SafelightError(problem)
        turn.answers.add(answer)
        path = self._path_to(turn)
        self._keep("ask", answer, chat, lambda: self._stored.ask(chat, path, answer.model))
        self._keep("release", chat, chat, lambda: self._release(chat))
        self.path_changed.emit()
        self.listed.emit()

    def _path_to(self, turn: Turn) -> list[tuple[Turn, Answer]]:
        turns = self.chat.turns
        return [(earlier, earlier.answer) for earlier in turns[: turns.index(turn) + 1]]

    def edit(self, turn: Turn, prompt: str, model: LoadedModel) -> None:
        """Sends another version of a turn's prompt, on a new branch. Raises like ``ask``."""
        model = self.requests.part(self.chat, model, user_message(prompt, turn.attachments, turn.pictures), turn)
        self._start(self.chat.edit(turn, prepare(model.traits, prompt), self.requests.new_answer(model)), model)

    def _start(self, turn: Turn, model: LoadedModel) -> None:
        chat, answer = self.chat, turn.answer
        try:
            is_blind = turn.pictures and not model.capabilities.images
            problem = cannot_see(model.title) if is_blind else self._claim(chat)
            how = answer.rewriting or (of_prompt(turn.prompt) if can_fill(model, answer.config) else None)
        except SafelightError as error:
            problem, how = str(error), None
        if problem:
            chat.fail(problem, model.decode)
            raise SafelightError(problem)
        self._put_back = None
        tools = self.calls.offered(model) if how is None else ()
        request = self.requests.request(chat, turn, model, how, tools, self.think)
        self._run = _Run(self._run_request(request), chat, turn, answer, model, chat.id is None, tools)
        path = self._path_to(turn)
        self._keep("ask", answer, chat, lambda: self._store(chat, path, model))
        self.path_changed.emit()
        self.listed.emit()

    def _store(self, chat: ChatState, path: list[tuple[Turn, Answer]], model: LoadedModel) -> None:
        self._stored.ask(chat, path, model.path_or_id)
        if self._run is not None and self._run.chat is chat:
            self._claim(chat)  # a new conversation is unknown to other windows

    def _claim(self, chat: ChatState) -> str:
        """Locks a conversation against writes from other windows. Returns the problem if this failed."""
        if chat.id is None or self.library.claims.take(chat.id):
            return ""
        return tr("This conversation is being answered in another window. Wait until it ends, then open it again.")

    def _release(self, chat: ChatState) -> None:
        """Unlocks a conversation, unless another run of it has begun; called once its answer is written."""
        if chat.id is not None and not (self._run is not None and self._run.chat is chat):
            self.library.claims.release(chat.id)

    @Slot(str)
    def _saved_or_not(self, problem: str) -> None:
        if not problem:
            self.listed.emit()  # a conversation may be new in the library

    @Slot()
    def stop(self) -> None:
        """Stops the current answer within one denoising step, or its call; its text so far stays."""
        run = self._run
        if run is not None and run.answer.status == "calling":
            self.calls.stop()
            run.answer.stop(run.model.decode)
            self._progress(run)
        elif run is not None:
            run.answer.is_stopping = True  # it ends after the pass that runs
            self._progress(run)
            run.handle.stop()

    @Slot()
    def stop_calls(self) -> None:
        """Stops an answer that waits for its calls, as the model that asked for them is gone."""
        if self._run is not None and self._run.answer.status == "calling":
            self.stop()

    def _run_request(self, request: RunRequest) -> RunHandle:
        handle = self._link.run(request)
        handle.started.connect(self._started)
        handle.noted.connect(self._noted)
        handle.changed.connect(self._changed)
        handle.revealed.connect(self._reveal)
        handle.ended.connect(self._ended)
        return handle

    @Slot(object)
    def _started(self, trace: Recording) -> None:
        if self._run is not None:
            self._run.answer.trace = trace
            self._run.answer.trace_id = trace.header.id if trace.path is not None else ""
            self._progress(self._run)

    @Slot(object)
    def _noted(self, reply: ServiceReply) -> None:
        if self._run is not None and isinstance(reply, PromptRead):
            self._run.answer.read = reply.read, reply.total
            self._progress(self._run)

    @Slot(object)
    def _changed(self, events: list[Event]) -> None:
        """Applies and stores the events of the current run; its last one may ask for calls."""
        run = self._run
        if run is not None:
            for event in events:
                run.chat.fold(event, run.model.decode)
            if run.tools:
                self.calls.begin(run.answer, run.model, run.tools)
            self._progress(run)

    @Slot(float)
    def _reveal(self, share: float) -> None:
        if self._run is not None and self._run.chat is self.chat:
            self.revealed.emit(share)

    @Slot(str, str)
    def _ended(self, problem: str, details: str) -> None:
        """Ends an answer whose run has ended without its last event."""
        run = self._run
        if run is None or self.sender() is not run.handle or run.answer.status == "calling":
            return  # the answer ended, or went on, with the last event of that run
        refused = None
        if problem:
            refused = self._fail(run, problem, details)
        else:
            run.answer.stop(run.model.decode)
        self._progress(run)
        if refused is not None:
            self.returned.emit(*refused)

    def _progress(self, run: _Run) -> None:
        """Stores and shows an answer's progress, and its end."""
        self._keep("answer", run.answer, run.chat, lambda: self._stored.keep(run.answer, run.model.decode))
        if run.chat is self.chat:
            if run.answer.is_active:
                self.progressed.emit(run.handle.share)
            else:
                self.settled.emit()
        if not run.answer.is_active:
            self._run = None
            self._keep("release", run.chat, run.chat, lambda: self._release(run.chat))
            self.ended.emit()
            self.listed.emit()

    @Slot()
    def _show_calls(self) -> None:
        if self._run is not None:
            self._progress(self._run)

    @Slot()
    def _go_on(self) -> None:
        """Begins the next run of an answer, behind the results of its calls."""
        run = self._run
        if run is None or run.answer.status != "calling":
            return
        assert isinstance(run.handle.request, ChatRun)
        request = behind_calls(run.handle.request, run.answer)
        run.answer.status = "developing"  # what went before stays, even if this run fails at once
        self._run = replace(run, handle=self._run_request(request))
        self._progress(self._run)

    def _fail(self, run: _Run, text: str, details: str) -> tuple[Turn, str] | None:
        developing = run.answer.status == "developing"
        turn = run.chat.fail(text, run.model.decode)
        if not developing:
            run.answer.status = "failed"
            self._keep("remove", turn or run.answer, run.chat, lambda: self._forget(run, turn or run.answer))
            if run.chat is self.chat:
                self.path_changed.emit()
        if turn is None or details:
            self.failed.emit(text, details)
        return None if turn is None else (turn, "" if details else text)

    def _forget(self, run: _Run, item: Turn | Answer) -> None:
        """Removes an item without an answer from the library, with its conversation if it was the first."""
        self._stored.remove(item)
        chat = run.chat
        if run.is_first and chat.id is not None and not chat.first.items:
            self.library.claims.release(chat.id)
            self._stored.forget(chat)

    def choose_answer(self, turn: Turn, index: int) -> None:
        turn.answers.show(index)
        shown = turn.answer
        self._keep("show", turn.answers, self.chat, lambda: self._stored.show(shown))
        self.path_changed.emit()

    def choose_prompt(self, turn: Turn, index: int) -> None:
        branch = self.chat.alternatives(turn)
        branch.show(index)
        shown = branch.current
        if shown is not None:
            self._keep("show", branch, self.chat, lambda: self._stored.show(shown))
        self.path_changed.emit()

    def remove(self, turn: Turn) -> None:
        """Deletes a turn on the path with all turns after it; ``undo_remove`` restores it.

        Raises:
            SafelightError: an answer of this conversation is running, here or in another window.
        """
        self._remove(self.chat.alternatives(turn), turn)

    def remove_answer(self, turn: Turn, index: int) -> None:
        """Deletes a version of an answer with all turns after it; if it is the only one, the whole turn.

        Raises like ``remove``.
        """
        if len(turn.answers) == 1:
            self.remove(turn)
        else:
            self._remove(turn.answers, turn.answers.items[index])

    def _remove(self, branch: Versions[Any], item: Turn | Answer) -> None:
        if self.chat.active is not None:
            raise SafelightError(tr("Stop the answer first; it may depend on what you delete."))
        chat = self.chat
        if problem := self._claim(chat):
            raise SafelightError(problem)
        place = branch.remove(item)

        def put_back() -> None:
            branch.put_back(item, place)
            self._keep("put back", item, chat, lambda: self._stored.put_back(item))

        self._put_back = put_back
        self._keep("remove", item, chat, lambda: self._stored.remove(item))
        self._keep("release", chat, chat, lambda: self._release(chat))
        self.path_changed.emit()

    @Slot()
    def undo_remove(self) -> None:
        """Restores the latest deleted item, if no prompt was sent since."""
        put_back, self._put_back = self._put_back, None
        if put_back is not None:
            put_back()
            self.path_changed.emit()

    def close(self) -> None:
        """Saves and closes the library; removed messages are erased. May be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self._fetching.drop()
        run, self._run = self._run, None
        self.calls.stop()
        if run is not None:
            run.answer.stop(run.model.decode)
            self._keep("answer", run.answer, run.chat, lambda: self._stored.keep(run.answer, run.model.decode))
        self.saving.close()
        with contextlib.suppress(LibraryError):  # the deleted rows stay hidden, and are removed next time
            self.library.purge()
        self.library.close()

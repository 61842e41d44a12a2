"""The engine on a thread of its own, and the bridge by which the window talks to it.

Commands go in as queued signals; everything comes back through one bounded mailbox. Torch is imported in the thread,
when the first model is loaded, so that the window is painted before. Knows no widgets.
"""

from __future__ import annotations

import dataclasses
import functools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Qt, QThread, QTimer, Signal, Slot

import engine
from app.bridge.mailbox import Mailbox
from app.bridge.messages import (
    AdapterChanged,
    AdapterRequest,
    ForkEnded,
    ForkGrown,
    ForkRequest,
    ForkStarted,
    InfluenceMeasured,
    InfluenceRequest,
    LoadedModel,
    LoadFailed,
    LoadProgress,
    LoadRequest,
    LoadStarted,
    MemoryUsed,
    Message,
    ModelLoaded,
    ModelUnloaded,
    RunFailed,
    RunRequest,
    RunStarted,
    TrialEnded,
    TrialGrown,
    TrialRequest,
    TrialStarted,
)
from app.bridge.recorder import Recorder, with_unmarked
from app.state.chat.context_window import fit
from app.system import logs
from app.system.i18n import tr
from engine import CanvasCommitted, Event, ModelIdentity, SafelightError, StepFinished, Trace, TraceHeader

Loader = Callable[..., Any]
Generator = Callable[..., Iterator[Event]]
PACED_LIMIT = 2  # how many events a paced engine may be ahead
ENDING_SECONDS = 10.0  # for the step, or the part of a load, that is under way
STACK_BYTES = 16 * 2**20  # secondary threads have 0.5 MiB on macOS, too little for tensor libraries


class _AbandonedError(Exception):
    """Raised inside a load that nobody waits for any more."""


class EngineWorker(QObject):
    """Lives in the engine's thread and owns the model."""

    mail = Signal()  # the mailbox turned non-empty

    def __init__(
        self,
        mailbox: Mailbox[Message],
        load_model: Loader | None = None,
        generate: Generator | None = None,
        traces: Path | None = None,
    ) -> None:
        super().__init__()
        self._mailbox = mailbox
        self._load_model = load_model
        self._generate = generate
        self._model: Any = None
        self._cache: Any = None  # of the last run: what a prompt shares with it is not read again
        self._recorder = Recorder(traces, self._post)

    def _post(self, message: Message, hurry: Callable[[], bool] = lambda: False) -> None:
        if self._mailbox.put(message, hurry):
            self.mail.emit()

    @Slot(object)
    def load(self, request: LoadRequest) -> None:
        """Load a model in place of the one that is there."""
        if request.cancel.is_set():
            return
        hurry = request.cancel.is_set
        self._model = self._cache = None
        self._post(LoadStarted(request.title), hurry)
        self._post(LoadProgress("Starting the engine", 0.0), hurry)
        told = 0.0

        def progress(share: float) -> None:
            nonlocal told
            if request.cancel.is_set():
                raise _AbandonedError
            if share - told >= 0.01 or share >= 1.0:
                told = share
                self._post(LoadProgress("Reading the weights", share), hurry)

        try:
            load_model = self._load_model or engine.load_model
            model = load_model(request.path_or_id, progress=progress, threads=request.threads)
            identity = engine.identify_model(model, request.path_or_id, request.title)
            loaded = _describe(model, request, identity)
            self._recorder.model_loaded(identity)
        except _AbandonedError:
            return
        except SafelightError as error:
            self._post(LoadFailed(request.path_or_id, str(error)), hurry)
        except Exception as error:  # the app must go on, whatever the libraries below raise
            self._post(LoadFailed(request.path_or_id, _in_words(error), traceback.format_exc()), hurry)
        else:
            self._model = model
            self._tell_memory(hurry)
            self._post(ModelLoaded(loaded), hurry)

    @Slot()
    def unload(self) -> None:
        """Let go of the model."""
        self._model = self._cache = None
        self._post(ModelUnloaded())

    def _tell_memory(self, hurry: Callable[[], bool]) -> None:
        found = self._model.device_memory()
        if found is not None:
            self._post(MemoryUsed(*found), hurry)

    def _require_model(self) -> None:
        if self._model is None:
            raise SafelightError("no model is loaded; choose one first")

    def _own_cache(self) -> Any:
        """The cache of the last run, or a new one."""
        if self._cache is None:
            self._cache = self._model.new_cache()
        return self._cache

    def _prompt_of(self, header: TraceHeader) -> Sequence[int]:
        """What a recorded run was asked, as tokens."""
        return header.prompt_ids or self._model.chat_ids(header.messages, enable_thinking=header.think)

    def _fitting(self, request: RunRequest) -> tuple[dict[str, str], ...]:
        """What of a conversation fits; counted here, as a stranger's template and tokenizer take their time."""
        context = self._model.config.max_position_embeddings
        found = fit(request.messages, functools.partial(_count_tokens, self._model), context, request.reserve)
        if found.problem:
            raise SafelightError(found.problem)
        return tuple(dict(message) for message in found.kept)

    @contextmanager
    def _guarded(self, tell: Callable[[str, str], None]) -> Iterator[None]:
        """End what is taken down and tell how it went: a sentence and its details, both empty if all went well."""
        message = details = ""
        try:
            yield
        except SafelightError as error:
            message = str(error)
        except Exception as error:  # the app must go on, whatever the libraries below raise
            self._cache = None
            message, details = _in_words(error), traceback.format_exc()
        self._recorder.end(message)
        tell(message, details)

    def _generated(self, request: RunRequest | TrialRequest, ids: Sequence[int], trace: Trace) -> Iterator[Event]:
        """A run's events, each taken down before it is told."""
        generate = self._generate or engine.generate
        options = {"seed": request.seed, "cancel": request.cancel, "cache": self._own_cache()}
        for event in generate(self._model, ids, trace.config, **options):
            self._recorder.append(event)
            yield event

    @Slot(object)
    def run(self, request: RunRequest) -> None:
        """Generate one answer, event by event."""
        hurry = request.cancel.is_set

        def tell(message: str, details: str) -> None:
            if message:
                self._post(RunFailed(message, details), hurry)

        with self._guarded(tell):
            self._require_model()
            request = dataclasses.replace(request, messages=self._fitting(request))
            ids = self._model.chat_ids(request.messages, enable_thinking=request.think)
            trace = self._recorder.begin(self._model, request, ids)
            self._post(RunStarted(trace), hurry)
            for event in self._generated(request, ids, trace):
                if isinstance(event, CanvasCommitted):
                    self._tell_memory(hurry)
                self._post(event, hurry)

    @Slot(object)
    def fork(self, request: ForkRequest) -> None:
        """Take a recorded run again and go on otherwise, or write spans of it anew."""
        with self._guarded(lambda message, details: self._post(ForkEnded(message, details))):
            self._require_model()
            header, committed = request.trace.header, request.trace.committed
            ids = self._prompt_of(header)
            trace = self._recorder.begin_fork(self._model, request, ids)
            self._post(ForkStarted(trace))
            rows, steps = [event.tokens for event in committed], [event.steps for event in committed]
            options = {"cancel": request.cancel, "cache": self._own_cache()}
            if request.marks:
                run = engine.infill(self._model, ids, header.config, request.seed, rows, request.marks, **options)
                run = with_unmarked(run, request.trace.events, {mark.block for mark in request.marks})
            else:
                known = request.changes[-1].block
                rows, steps = rows[:known], steps[: known + 1]
                run = engine.fork(self._model, ids, header.config, header.seed, rows, steps, request.changes, **options)
            for event in run:
                self._recorder.append(event)
                self._post(ForkGrown(), request.cancel.is_set)

    @Slot(object)
    def trial(self, request: TrialRequest) -> None:
        """Generate an answer that belongs to no conversation."""
        if request.cancel.is_set():
            self._post(TrialEnded())
            return
        hurry = request.cancel.is_set
        with self._guarded(lambda message, details: self._post(TrialEnded(message, details))):
            self._require_model()
            ids = self._model.chat_ids(request.messages, enable_thinking=request.think)
            trace = self._recorder.begin(self._model, request, ids, keep=request.keep)
            self._post(TrialStarted(trace), hurry)
            for event in self._generated(request, ids, trace):
                self._post(TrialGrown(is_step=isinstance(event, StepFinished)), hurry)

    @Slot(object)
    def adapt(self, request: AdapterRequest) -> None:
        """Put an adapter on the model, or take it off."""
        path, title = request.path_or_id, ""
        with self._guarded(lambda message, details: self._post(AdapterChanged(path, title, message, details))):
            self._require_model()
            if path is None:
                engine.unload_adapter(self._model)
            else:
                engine.load_adapter(self._model, path)
            self._cache = None  # what it holds was read without this adapter
            adapter = self._model.adapter
            self._recorder.adapter_changed(adapter)
            title = "" if adapter is None else adapter.title

    @Slot(object)
    def influence(self, request: InfluenceRequest) -> None:
        """Measure how far one token moves the others."""
        found = None
        with self._guarded(lambda message, _: self._post(InfluenceMeasured(request, found, message))):
            self._require_model()
            ids = self._prompt_of(request.trace.header)
            found = engine.influence(
                self._model,
                ids,
                [event.tokens for event in request.trace.committed if event.block_index < request.block],
                request.canvas,
                request.position,
                request.token,
                cache=self._own_cache(),
                temperature=request.temperature,
            )


class EngineLink(QObject):
    """The window's side: starts the thread, sends commands, and hands on what arrived.

    A small model takes a step faster than an eye can follow: ``pace_ms`` keeps each step in view at least so long. The
    engine then waits for the view, so that Stop ends the run where it is seen to be. A slower model waits for nothing.
    Must be shut down before it is destroyed. ``traces`` is the folder where runs are kept; None keeps none.
    """

    arrived = Signal(object)  # list[Message], in order
    _load_asked = Signal(object)
    _unload_asked = Signal()
    _run_asked = Signal(object)
    _fork_asked = Signal(object)
    _trial_asked = Signal(object)
    _adapter_asked = Signal(object)
    _influence_asked = Signal(object)

    def __init__(
        self,
        load_model: Loader | None = None,
        generate: Generator | None = None,
        *,
        mailbox_limit: int = 256,
        traces: Path | None = None,
    ) -> None:
        super().__init__()
        self._mailbox: Mailbox[Message] = Mailbox(mailbox_limit)
        self._limit = mailbox_limit
        self._pace_ms = 0
        self.threads = 0  # of the processor, for the models that are loaded from now on; 0 goes by the model
        self._held: list[Message] = []  # taken from the mailbox, not handed on yet
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.timeout.connect(self._drain)
        self._load_request: LoadRequest | None = None
        self._run_request: RunRequest | ForkRequest | TrialRequest | None = None
        self._worker = EngineWorker(self._mailbox, load_model, generate, traces)
        self._thread = QThread()
        self._thread.setObjectName("safelight-engine")
        self._thread.setStackSize(STACK_BYTES)
        self._worker.moveToThread(self._thread)
        self._load_asked.connect(self._worker.load, Qt.ConnectionType.QueuedConnection)
        self._unload_asked.connect(self._worker.unload, Qt.ConnectionType.QueuedConnection)
        self._run_asked.connect(self._worker.run, Qt.ConnectionType.QueuedConnection)
        self._fork_asked.connect(self._worker.fork, Qt.ConnectionType.QueuedConnection)
        self._trial_asked.connect(self._worker.trial, Qt.ConnectionType.QueuedConnection)
        self._adapter_asked.connect(self._worker.adapt, Qt.ConnectionType.QueuedConnection)
        self._influence_asked.connect(self._worker.influence, Qt.ConnectionType.QueuedConnection)
        self._worker.mail.connect(self._drain, Qt.ConnectionType.QueuedConnection)
        self._thread.start()

    @property
    def pace_ms(self) -> int:
        """Least time between two steps on show, in milliseconds."""
        return self._pace_ms

    @pace_ms.setter
    def pace_ms(self, value: int) -> None:
        self._pace_ms = value
        self._mailbox.limit = PACED_LIMIT if value else self._limit

    def load(self, path_or_id: str, title: str) -> None:
        """Load a model; a run or load that is under way is given up."""
        self._give_up()
        self._load_request = LoadRequest(path_or_id, title, self.threads)
        self._load_asked.emit(self._load_request)

    def unload(self) -> None:
        """Let go of the model; a run or load that is under way is given up."""
        self._give_up()
        self._unload_asked.emit()

    def _give_up(self) -> None:
        self.cancel()
        if self._load_request is not None:
            self._load_request.cancel.set()

    def run(self, request: RunRequest) -> None:
        """Generate an answer. One run at a time: the next waits for the end of this one."""
        self._run_request = request
        self._run_asked.emit(request)

    def fork(self, request: ForkRequest) -> None:
        """Go on from a recorded run otherwise; waits for the run under way."""
        self._run_request = request
        self._fork_asked.emit(request)

    def trial(self, request: TrialRequest) -> None:
        """Generate an answer that belongs to no conversation; waits for the run under way."""
        self._run_request = request
        self._trial_asked.emit(request)

    def adapt(self, path_or_id: str | None) -> None:
        """Put an adapter on the loaded model, or take it off; waits for the run under way."""
        self._adapter_asked.emit(AdapterRequest(path_or_id))

    def influence(self, request: InfluenceRequest) -> None:
        """Measure an influence; waits for the run under way."""
        self._influence_asked.emit(request)

    def cancel(self) -> None:
        """Stop the run within one denoising step; does nothing when none is under way."""
        if self._run_request is not None:
            self._run_request.cancel.set()
        self._pause.stop()
        self._drain()  # nobody waits for steps that were held back

    def shutdown(self) -> None:
        """Give up what is under way and end the thread; may be called again.

        A library that answers to nobody is left behind after ``ENDING_SECONDS``; the thread is alive then.
        """
        self._give_up()
        self._mailbox.close()
        self._thread.quit()
        if not self._thread.wait(round(ENDING_SECONDS * 1000)):
            logs.log.warning("the engine's thread did not end in %.0f s", ENDING_SECONDS)

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread runs."""
        return self._thread.isRunning()

    @Slot()
    def _drain(self) -> None:
        """Hand on what is pending; under a pace no more than one step at a time."""
        cancelled = self._run_request is not None and self._run_request.cancel.is_set()
        while not self._pause.isActive():
            messages = self._held or self._mailbox.drain()
            if not messages:
                return
            end = len(messages)
            if self._pace_ms and not cancelled:
                steps = (place for place, message in enumerate(messages) if _is_step(message))
                first = next(steps, None)
                if first is not None:
                    end = first + 1
                    self._pause.start(self._pace_ms)
            self._held = messages[end:]
            self.arrived.emit(messages[:end])


def _is_step(message: Message) -> bool:
    """Whether a pace holds this in view."""
    return message.is_step if isinstance(message, TrialGrown) else isinstance(message, StepFinished)


def _describe(model: Any, request: LoadRequest, identity: ModelIdentity) -> LoadedModel:
    return LoadedModel(
        path_or_id=request.path_or_id,
        title=request.title,
        name=model.name,
        defaults=model.generation_defaults,
        canvas_length=model.config.canvas_length,
        parameter_count=model.parameter_count,
        device=str(model.device),
        load_seconds=model.load_seconds,
        vocab_size=model.config.vocab_size,
        piece=model.tokenizer.piece,
        is_special=model.tokenizer.is_special,
        decode=functools.partial(engine.read_reply, model.tokenizer),
        count_tokens=functools.partial(_count_tokens, model),
        encode=model.tokenizer.encode,
        fingerprint=identity.fingerprint,
        context=model.config.max_position_embeddings,
        threads=model.threads,
    )


def _count_tokens(model: Any, messages: Sequence[Mapping[str, str]]) -> int:
    """Of a conversation as the model's template writes it. Not for the GUI thread."""
    return int(model.tokenizer.count(model.chat_template.render(messages)))


def _in_words(error: Exception) -> str:
    """One line that says what to do next."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's own is not imported here
        return tr("Memory ran out. Close other programs, start a new chat, or load the model in fewer bits.")
    text = " ".join(str(error).split()) or type(error).__name__
    return tr("Something went wrong: {text} Try again; the details may tell why.", text=f"{text[:200].rstrip('.')}.")

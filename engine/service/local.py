"""Loads, adapts and runs one model on this machine, and records every run."""

from __future__ import annotations

import dataclasses
import functools
import traceback
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from engine.config import BLOCK_DIFFUSION, GenerationConfig
from engine.decoding.names import FORMATTING, formatting, names_of, require_diffusion
from engine.errors import SafelightError
from engine.events import CanvasCommitted, Event, GenerationFinished, Influence
from engine.service.admission import Admission
from engine.service.backend import RunSteps
from engine.service.cache_pool import CachePool
from engine.service.capabilities import Capabilities
from engine.service.deciding import NO_INSTRUCTIONS, Deciding, reading_config
from engine.service.description import count_tokens, deciding_of, describe, prompt_ids
from engine.service.failures import in_words
from engine.service.meanwhile import meanwhile, without_waiting
from engine.service.recorder import Recorder, RunRecord
from engine.service.replies import (
    AdapterChanged,
    InfluenceMeasured,
    LoadFailed,
    LoadProgress,
    LoadReply,
    LoadStarted,
    MemoryUsed,
    ModelLoaded,
    ModelUnloaded,
    PassWanted,
    RunAdvanced,
    RunEnded,
    RunStarted,
)
from engine.service.requests import AdapterRequest, InfluenceRequest, LoadRequest, RunRequest
from engine.tasks.decisions.layout import Layout, Slot
from engine.tasks.decisions.questions import Decision
from engine.text.context_window import fit
from engine.text.message import Message, image_digests
from engine.trace.identity import identify_model
from engine.trace.recording import Recording, entry_of

if TYPE_CHECKING:
    import threading

    from engine.decoding.protocols import Pass
    from engine.layers.kv_cache import KVCache
    from engine.models.model import Model
    from engine.text.formatted_answer import FormattedAnswer

LEAST_PROGRESS = 0.01  # share of a load between two reports
CAPABILITIES = Capabilities(
    steps=True, forks=True, infill=True, influence=True, adapters=True, structured=True, parallel_runs=4
)


class _AbandonedError(Exception):
    """Raised inside a load that was cancelled."""


class _RefusedError(Exception):
    """A run that cannot begin; the argument is the reason."""


@dataclass(frozen=True)
class _Task:
    """A run as it begins: its request with the messages that the model is given, its prompt, a decision's canvas.

    ``answer`` is of a run whose answer must fit a format.
    """

    request: RunRequest
    ids: Sequence[int]
    layout: Layout | None = None
    answer: FormattedAnswer | None = None

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Of a decision."""
        return () if self.layout is None else self.layout.slots


class LocalBackend:
    """A ``Backend``.

    The methods that call the engine are at the end of the class. Each imports torch when it is first called, so
    that a window can be painted before; tests override them.

    Args:
        traces: the folder where runs are stored; None stores none.
    """

    def __init__(self, traces: Path | None = None) -> None:
        self._model: Model | None = None
        self._deciding: Deciding | None = None  # None: the model cannot decide
        self._capabilities = CAPABILITIES
        self._reads_system = True  # the model's template
        self._caches = CachePool()
        self._admission = Admission(self._caches)
        self._chosen: str | None = None  # the adapter that was asked for
        self._present: str | None = None  # the one that is on the model: a run may have one of its own
        self._recorder = Recorder(traces)
        self._ahead: tuple[RunRequest, _Task] | None = None  # prepared to see whether it has room

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    # ---------------------------------------------------------------- the model

    def load(self, request: LoadRequest, report: Callable[[LoadReply], None]) -> None:
        if request.cancel.is_set():
            return
        report(LoadStarted(request.title))
        report(LoadProgress("Starting the engine", 0.0))
        reported = 0.0

        def progress(share: float) -> None:
            nonlocal reported
            if request.cancel.is_set():
                raise _AbandonedError
            if share - reported >= LEAST_PROGRESS or share >= 1.0:
                reported = share
                report(LoadProgress("Reading the weights", share))

        try:
            if self._model is not None:
                self.check_model(request.path_or_id)  # before this one is let go
            self._forget_model()
            model = self.load_model(request.path_or_id, progress, request.threads)
            identity = identify_model(model, request.path_or_id, request.title)
            self._deciding = _deciding(model)
            self._capabilities = _capabilities(model, decides=self._deciding is not None)
            loaded = describe(model, request, identity, self.capabilities)
        except _AbandonedError:
            return
        except SafelightError as error:
            report(LoadFailed(request.path_or_id, str(error), kept=self._model is not None))
        except Exception as error:  # the app must survive whatever the libraries raise
            kept = self._model is not None
            report(LoadFailed(request.path_or_id, in_words(error), traceback.format_exc(), kept))
        else:
            self._model, self._reads_system = model, loaded.reads_system
            self._recorder.model_loaded(identity)
            for used in self._memory(model):
                report(used)
            report(ModelLoaded(loaded))
            if request.adapter is not None:
                report(self.set_adapter(AdapterRequest(request.adapter)))

    def unload(self) -> ModelUnloaded:
        self._forget_model()
        return ModelUnloaded()

    def _forget_model(self) -> None:
        self._model = self._deciding = self._chosen = self._present = self._ahead = None
        self._capabilities = CAPABILITIES
        self._caches.clear()

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        path = request.path_or_id
        try:
            self._put_adapter(self._require_model(), path)
        except SafelightError as error:
            return AdapterChanged(path, message=str(error))
        except Exception as error:  # as in ``load``
            return AdapterChanged(path, message=in_words(error), details=traceback.format_exc())
        self._chosen = path
        adapter = self._require_model().adapter
        return AdapterChanged(path, "" if adapter is None else adapter.title)

    def sibling(self) -> LocalBackend:
        return LocalBackend(self._recorder.folder)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return count_tokens(self._require_model(), messages)

    def _require_model(self) -> Model:
        if self._model is None:
            raise SafelightError("no model is loaded; choose one first")
        return self._model

    @staticmethod
    def _memory(model: Model) -> Iterator[MemoryUsed]:
        found = model.device_memory()
        if found is not None:
            yield MemoryUsed(*found)

    # ---------------------------------------------------------------- runs

    def admits(self, request: RunRequest, running: Sequence[RunRequest]) -> bool:
        model = self._model
        if not running or model is None:
            return True
        if self._adapter_of(request) != self._present:
            return False

        def need() -> int:
            try:
                task = self._prepared(model, request)
            except Exception:  # it says so when it begins
                return 0
            self._ahead = request, task
            return self.run_bytes(model, len(task.ids), task.request.config, len(running))

        return self._admission.fits(request.run_id, need, lambda: self.spare_bytes(model))

    def begin(self, request: RunRequest) -> RunSteps:
        if request.kind == "puzzle" and request.cancel.is_set():
            yield RunEnded(request.run_id)  # a queued run that was cancelled is not started
            return
        message = details = ""
        record: RunRecord | None = None
        answer: FormattedAnswer | None = None
        try:
            model = self._require_model()
            self._put_adapter(model, self._adapter_of(request))
            task = self._decoded(model, self._prepared(model, request))
            need = self.run_bytes(model, len(task.ids), task.request.config, self._admission.running)
            self._admission.begin(request.run_id, need)  # before the next run asks whether it is admitted
            answer = yield from self._answer_of(model, task)
            task = dataclasses.replace(task, answer=answer)
            record = self._recorder.begin(task.request, task.ids, model.tokenizer, task.slots)
            yield from self._recorder.take_warnings()
            yield RunStarted(request.run_id, record.trace)
            yield from self._steps(model, task, record)
        except _RefusedError as error:
            message = error.args[0]
        except SafelightError as error:
            message = str(error)
        except Exception as error:  # as in ``load``
            message, details = in_words(error), traceback.format_exc()
        except GeneratorExit:
            if record is not None:
                record.end("The run was given up.")
            raise
        finally:
            self._admission.end(request.run_id)
            if answer is not None:
                answer.close()
        if record is not None:
            record.end(message)
        yield from self._recorder.take_warnings()
        yield RunEnded(request.run_id, message, details)

    def _steps(self, model: Model, task: _Task, record: RunRecord) -> RunSteps:
        """A run's events and passes. Its cache serves later runs, unless it fails."""
        request, config = task.request, record.trace.config
        if request.pictures:
            seen = yield from self._seen(model, task.ids, request)
            if seen is None:
                event = _cancelled(record.trace)
                record.append(event)
                yield RunAdvanced(request.run_id, event)
                return
            task = dataclasses.replace(task, ids=seen)
        cache = self._caches.take(model, task.ids)
        self._admission.hold(request.run_id, cache, lambda: self.spare_bytes(model))
        is_sound = False
        try:
            for item in self._items_of(model, task, config, cache):
                if not isinstance(item, Event):
                    yield PassWanted(item)
                    continue
                record.append(item)  # before the event is reported
                yield from self._recorder.take_warnings()
                if isinstance(item, CanvasCommitted):
                    yield from self._memory(model)
                yield RunAdvanced(request.run_id, item)
            is_sound = True
        except (SafelightError, GeneratorExit):
            is_sound = True
            raise
        finally:
            if is_sound:
                self._caches.give_back(cache)

    def perform(self, passes: Sequence[PassWanted]) -> None:
        from engine.decoding.together import perform_together  # torch

        passes = without_waiting(passes)
        whose = {id(wanted.what): wanted for wanted in passes}

        def performed(done: Pass) -> None:
            whose[id(done)].is_done = True

        perform_together(self._require_model(), [cast("Pass", wanted.what) for wanted in passes], performed)

    def _prepared(self, model: Model, request: RunRequest) -> _Task:
        """A request with the messages that the model is given, and the prompt as tokens."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] is request:
            return ahead[1]
        if request.decision is not None:
            return self._decided(model, request, request.decision)
        messages = self._fitting(model, request) if request.kind == "chat" else request.messages
        request = dataclasses.replace(request, messages=messages)
        return _Task(request, prompt_ids(model, request))

    @staticmethod
    def _seen(
        model: Model, ids: Sequence[int], request: RunRequest
    ) -> Generator[PassWanted, None, Sequence[int] | None]:
        """Comes to a prompt with its images; None where the run was cancelled meanwhile."""
        from engine.decoding.protocols import ReadImages  # torch

        reading = model.seeing(ids, request.messages, request.pictures, request.config.image_tokens)
        while not request.cancel.is_set():
            wanted = ReadImages(reading)
            yield PassWanted(wanted)
            if wanted.failure is not None:
                raise wanted.failure
            if wanted.prompt is not None:
                return wanted.prompt
        return None

    @staticmethod
    def _decoded(model: Model, task: _Task) -> _Task:
        """A run whose settings name its decoder, unless that is block diffusion.

        Raises:
            SafelightError: the model's family does not have it, or it cannot do what is asked for.
        """
        known, own = model.family.decoders, model.family.default_decoder
        request = task.request
        source, config = request.source, request.config
        if source is not None:
            require_diffusion(source.header.config, known, own, "going on from a recorded run")
        elif request.decision is None and request.output_format is None:
            names_of(config, known, own)
            named = config.replace(decoder=config.decoder or own)
            if not named.is_block_diffusion:
                return dataclasses.replace(task, request=dataclasses.replace(request, config=named))
        elif request.output_format is not None:
            decoder = formatting(config, known, own)
            if decoder != BLOCK_DIFFUSION:
                named = config.replace(decoder=decoder, thought_decoder="", answer_decoder="")
                return dataclasses.replace(task, request=dataclasses.replace(request, config=named))
        return task

    @staticmethod
    def _answer_of(model: Model, task: _Task) -> Generator[PassWanted, None, FormattedAnswer | None]:
        """Comes to the answer that a run must write, if that has a format.

        Raises:
            SafelightError: no answer can be held to it.
        """
        request = task.request
        if request.output_format is None:
            return None
        from engine.decoding.generate import answer_of  # torch

        begun = functools.partial(answer_of, model, task.ids, request.config, request.output_format)
        try:
            return (yield from meanwhile(begun, request.cancel))
        except SafelightError:
            if request.cancel.is_set():
                raise _RefusedError("") from None
            raise

    def _decided(self, model: Model, request: RunRequest, decision: Decision) -> _Task:
        """The same of a decision: the messages and the settings are made of it.

        Raises:
            SafelightError: this model cannot decide it.
        """
        deciding = self._deciding or deciding_of(model)
        if decision.instructions and not self._reads_system:
            raise SafelightError(NO_INSTRUCTIONS)
        layout = deciding.layout(decision)
        width = len(layout.canvas)
        request = dataclasses.replace(
            request,
            messages=deciding.messages(decision, request.pictures),
            config=reading_config(request.config, width),
        )
        ids, most = prompt_ids(model, request), model.config.max_position_embeddings
        if len(ids) + width > most:
            raise SafelightError(
                f"the state and its questions take {len(ids)} tokens and a canvas {width}; this model has {most} "
                "positions. Shorten the state, or ask less at once"
            )
        return _Task(request, ids, layout)

    @staticmethod
    def _fitting(model: Model, request: RunRequest) -> tuple[Message, ...]:
        """The part of a conversation that fits the context.

        Counted in the thread of the runs, since an unknown template and tokenizer may be slow.
        """
        context = model.config.max_position_embeddings

        def count(messages: Sequence[Message]) -> int:
            return count_tokens(model, messages, request.tools, request.config.image_tokens)

        found = fit(request.messages, count, context, request.reserve)
        if found.problem:
            raise _RefusedError(found.problem)
        return tuple(dict(message) for message in found.kept)

    def _items_of(self, model: Model, task: _Task, config: GenerationConfig, cache: KVCache) -> Iterable[Event | Pass]:
        request = task.request
        if task.answer is not None:
            from engine.decoding.generate import fitting  # torch

            return fitting(model, task.ids, config, request.seed, task.answer, request.cancel, cache)
        if request.decision is None or task.layout is None:
            return self._items(model, request, task.ids, config, cache)
        from engine.decoding.reading import reading  # torch

        repeats = request.decision.repeats
        return reading(model, task.ids, task.layout, config, repeats, request.seed, request.cancel, cache)

    def _items(
        self, model: Model, request: RunRequest, ids: Sequence[int], config: GenerationConfig, cache: KVCache
    ) -> Iterable[Event | Pass]:
        source, cancel = request.source, request.cancel
        if source is None:
            return self.generate(model, ids, config, request.seed, cancel, cache)
        from engine.decoding.generate import forking, refilling  # torch

        committed = source.committed
        rows, steps = [event.tokens for event in committed], [event.steps for event in committed]
        if request.kind == "infill":
            run = refilling(model, ids, config, request.seed, rows, request.marks, cancel, cache)
            return with_unmarked(run, source, {mark.block for mark in request.marks})
        known = request.departure.block
        return forking(
            model, ids, config, request.seed, rows[:known], steps[: known + 1], request.changes, cancel, cache
        )

    # ---------------------------------------------------------------- adapters

    def _adapter_of(self, request: RunRequest) -> str | None:
        """The adapter that a run is to have, a folder or an id; None: none."""
        return self._chosen if request.adapter is None else request.adapter or None

    def _put_adapter(self, model: Model, path: str | None) -> None:
        """Put an adapter on the model, or take it off; not while a run is under way."""
        if path == self._present:
            return
        self._caches.clear()  # they were filled with another adapter, or without
        if path is None:
            self.unload_adapter(model)
        else:
            self.load_adapter(model, path)
        self._present = path
        self._recorder.adapter_changed(model.adapter)

    # ---------------------------------------------------------------- influence

    def measure(self, request: InfluenceRequest) -> InfluenceMeasured:
        try:
            return InfluenceMeasured(request, self._influence(self._require_model(), request))
        except SafelightError as error:
            return InfluenceMeasured(request, None, str(error))
        except Exception as error:  # as in ``load``
            self._caches.clear()
            return InfluenceMeasured(request, None, in_words(error))

    def _influence(self, model: Model, request: InfluenceRequest) -> Influence:
        from engine.decoding.influence import influence  # torch

        self._put_adapter(model, self._chosen)
        header = request.trace.header
        require_diffusion(header.config, model.family.decoders, model.family.default_decoder, "influence")
        ids: Sequence[int] = header.prompt_ids or model.chat_ids(header.messages, enable_thinking=header.think)
        if image_digests(header.messages):
            ids = model.with_images(ids, header.messages, request.trace.pictures, header.config.image_tokens)
        cache = self._caches.take(model, ids)
        found = influence(
            model,
            ids,
            [event.tokens for event in request.trace.committed if event.block_index < request.block],
            request.canvas,
            request.position,
            request.token,
            cache=cache,
            temperature=request.temperature,
        )
        self._caches.give_back(cache)
        return found

    # ---------------------------------------------------------------- the engine; each imports torch

    def check_model(self, path_or_id: str) -> None:
        from engine.models.model import check_model  # torch

        check_model(path_or_id)

    def load_model(self, path_or_id: str, progress: Callable[[float], None], threads: int) -> Model:
        from engine.models.model import load_model  # torch

        return load_model(path_or_id, progress=progress, threads=threads)

    def spare_bytes(self, model: Model) -> int:
        return model.spare_bytes()

    def run_bytes(self, model: Model, prompt: int, config: GenerationConfig, running: int) -> int:
        return model.run_bytes(prompt, config, running)

    def load_adapter(self, model: Model, path_or_id: str) -> None:
        from engine.models.adapting import load_adapter  # torch

        load_adapter(model, path_or_id)

    def unload_adapter(self, model: Model) -> None:
        from engine.models.adapting import unload_adapter  # torch

        unload_adapter(model)

    def generate(
        self,
        model: Model,
        ids: Sequence[int],
        config: GenerationConfig,
        seed: int,
        cancel: threading.Event,
        cache: KVCache,
    ) -> Iterable[Event | Pass]:
        from engine.decoding.generate import generating  # torch

        return generating(model, ids, config, seed, cancel, cache)


def _cancelled(run: Recording) -> GenerationFinished:
    """The end of a run that was cancelled before its first pass; a fork has blocks already."""
    done = [event.tokens[: event.text_length] for event in run.committed]
    tokens = np.concatenate(done) if done else np.empty(0, dtype=np.int32)
    return GenerationFinished("cancelled", tokens, len(done), 0, 0.0)


def _deciding(model: Model) -> Deciding | None:
    """What a model decides with; None where it cannot."""
    try:
        return deciding_of(model)
    except SafelightError:
        return None


def _capabilities(model: Model, *, decides: bool) -> Capabilities:
    """What a model can do; forks, infills and influence are block diffusion's."""
    decoders = model.family.decoders
    can = dataclasses.replace(CAPABILITIES, decisions=decides, images=model.vision is not None)
    can = dataclasses.replace(can, structured=any(name in FORMATTING for name in decoders))
    return can if BLOCK_DIFFUSION in decoders else dataclasses.replace(can, forks=False, infill=False, influence=False)


def with_unmarked(run: Iterable[Event | Pass], source: Recording, marked: Collection[int]) -> Iterator[Event | Pass]:
    """An infilling's items, with the source's events for blocks it did not change, in block order."""
    kept = deque(place for place, entry in enumerate(source.entries) if entry.block >= 0 and entry.block not in marked)
    for item in run:
        if isinstance(item, Event):
            here = entry_of(item)
            while kept and (here.kind == "end" or source.entries[kept[0]].block < here.block):
                yield source.event(kept.popleft())
        yield item

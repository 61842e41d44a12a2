"""Runs one model on this machine, and records every run."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from engine.config import GenerationConfig
from engine.decoders import BLOCK_DIFFUSION, able
from engine.decoding.names import require_able
from engine.errors import SafelightError
from engine.events import CanvasCommitted, Event, Influence, PromptScores
from engine.service.admission import Admission, CachePool
from engine.service.backend import RunSteps, required
from engine.service.decisions import Deciding
from engine.service.description import deciding_of, describe
from engine.service.recorder import Recorder, RunRecord, cancelled
from engine.service.replies import (
    AdapterChanged,
    Capabilities,
    InfluenceMeasured,
    LoadFailed,
    LoadProgress,
    LoadReply,
    LoadStarted,
    MemoryUsed,
    ModelLoaded,
    ModelUnloaded,
    PassWanted,
    PromptRead,
    PromptScored,
    RunAdvanced,
    RunEnded,
    RunStarted,
    explained,
)
from engine.service.requests import AdapterRequest, InfluenceRequest, LoadRequest, PuzzleRun, RunRequest
from engine.service.run_task import (
    RunRefusedError,
    RunTask,
    answer_of_task,
    decode_task,
    task_of,
    with_decoder,
    with_images,
    without_waiting,
)
from engine.text.message import image_digests
from engine.trace.header import identify_model

if TYPE_CHECKING:
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


class LocalBackend:
    """A ``Backend``: holds a model, its adapter and the idle caches, and runs it.

    The methods that call the engine are at the end of the class. Each imports torch when it is first called, so that a
    window can be painted before that; tests override them.

    Args:
        traces: the folder where runs are stored; None stores none.
    """

    def __init__(self, traces: Path | None = None) -> None:
        self._model: Model | None = None
        self._deciding: Deciding | None = None  # None: the model cannot decide
        self._capabilities = CAPABILITIES
        self._reads_system = True  # the model's template
        self._caches = CachePool()
        self._chosen: str | None = None  # the requested adapter
        self._present: str | None = None  # the adapter on the model now: a run may have one of its own
        self._recorder = Recorder(traces)
        self._admission = Admission(self._caches)
        self._ahead: tuple[RunRequest, RunTask] | None = None  # prepared by ``admits``

    def sibling(self) -> LocalBackend:
        return LocalBackend(self._recorder.folder)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def load(self, request: LoadRequest, report: Callable[[LoadReply], None]) -> None:
        if request.cancel.is_set():
            return
        report(LoadStarted(request.title))
        is_first = "torch" not in sys.modules  # its import takes seconds
        report(LoadProgress("Starting PyTorch, once after each start" if is_first else "Opening its files", 0.0))
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
                self.check_model(request.path_or_id)  # before this one is dropped
            self._forget_model()
            model = self.load_model(request.path_or_id, progress, request.threads)
            identity = identify_model(model, request.path_or_id, request.title)
            self._deciding = _deciding(model)
            self._capabilities = _capabilities(model, decides=self._deciding is not None)
            loaded = describe(model, request, identity, self.capabilities)
        except _AbandonedError:
            return
        except Exception as error:  # the app must survive whatever the libraries raise
            report(LoadFailed(request.path_or_id, *explained(error), kept=self._model is not None))
        else:
            self._model, self._reads_system = model, loaded.reads_system
            self._recorder.model = identity
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
            self._put_adapter(required(self._model), path)
        except Exception as error:  # as in ``load``
            return AdapterChanged(path, "", *explained(error))
        self._chosen = path
        adapter = required(self._model).adapter
        return AdapterChanged(path, "" if adapter is None else adapter.title)

    @staticmethod
    def _memory(model: Model) -> Iterator[MemoryUsed]:
        used = model.device_memory()
        if used is not None:
            yield MemoryUsed(*used)

    def _adapter_of(self, request: RunRequest) -> str | None:
        """Returns the adapter of a run, a folder or an id; None: none."""
        return self._chosen if request.adapter is None else request.adapter or None

    def _put_adapter(self, model: Model, path: str | None) -> None:
        """Attaches an adapter to the model, or detaches it; only while no run is active."""
        if path == self._present:
            return
        self._caches.clear()  # they were filled with another adapter, or without
        if path is None:
            self.unload_adapter(model)
        else:
            self.load_adapter(model, path)
        self._present = path
        self._recorder.adapter_changed(model.adapter)

    def measure(self, request: InfluenceRequest) -> InfluenceMeasured:
        try:
            return InfluenceMeasured(request, self._influence(required(self._model), request))
        except SafelightError as error:
            return InfluenceMeasured(request, None, str(error))
        except Exception as error:  # as in ``load``
            self._caches.clear()
            return InfluenceMeasured(request, None, explained(error)[0])

    def _influence(self, model: Model, request: InfluenceRequest) -> Influence:
        from engine.decoding.influence import influence  # torch

        self._put_adapter(model, self._chosen)
        header = request.trace.header
        config = header.config
        require_able(config, model.family.decoders, "influence", "measures")
        masks = config.max_new_tokens - len(request.canvas) * (request.block + 1)
        ids: Sequence[int] = header.prompt_ids or model.chat_ids(header.messages, enable_thinking=header.think)
        if image_digests(header.messages):
            ids = model.with_images(ids, header.messages, request.trace.pictures, header.config.image_tokens)
        cache = self._caches.lend(model, ids)
        measured = influence(
            model,
            ids,
            [event.tokens for event in request.trace.committed if event.block_index < request.block],
            request.canvas,
            request.position,
            request.token,
            cache=cache,
            temperature=request.temperature or 1.0,
            masks=max(0, masks) if model.config.reads_whole else 0,
        )
        self._caches.give_back(cache)
        return measured

    def admits(self, request: RunRequest, running: Sequence[RunRequest]) -> bool:
        model = self._model
        if not running or model is None:
            return True
        if self._adapter_of(request) != self._present:
            return False

        def need() -> int:
            try:
                task = self._prepared(model, request)
            except Exception:  # the run reports it when it begins
                return 0
            self._ahead = request, task
            return self.run_bytes(model, len(task.ids), task.request.config, len(running))

        return self._admission.fits(request.run_id, need, lambda: self.spare_bytes(model))

    def begin(self, request: RunRequest) -> RunSteps:
        if isinstance(request, PuzzleRun) and request.cancel.is_set():
            yield RunEnded(request.run_id)  # a queued run that was cancelled is not started
            return
        message = details = ""
        record: RunRecord | None = None
        answer: FormattedAnswer | None = None
        try:
            model = required(self._model)
            self._put_adapter(model, self._adapter_of(request))
            task = with_decoder(model, self._prepared(model, request))
            need = self.run_bytes(model, len(task.ids), task.request.config, self._admission.running)
            self._admission.reserve(request.run_id, need)  # before the next run is admitted
            answer = yield from answer_of_task(model, task)
            record = self._recorder.record(task, model.tokenizer)
            yield from self._recorder.take_warnings()
            yield RunStarted(request.run_id, record.trace)
            # The record asks for more candidates than the request may.
            task = dataclasses.replace(task.with_request(config=record.trace.config), answer=answer)
            yield from self._steps(model, task, record)
        except RunRefusedError as error:
            message = error.args[0]
        except Exception as error:  # as in ``load``
            message, details = explained(error)
        except GeneratorExit:
            if record is not None:
                record.end("The run was cancelled.")
            raise
        finally:
            self._admission.end(request.run_id)
            if answer is not None:
                answer.close()
        if record is not None:
            record.end(message)
        yield from self._recorder.take_warnings()
        yield RunEnded(request.run_id, message, details)

    def _steps(self, model: Model, task: RunTask, record: RunRecord) -> RunSteps:
        """Yields the replies and passes of a run that has begun. Its cache serves later runs, unless the run fails."""
        from engine.decoding.protocols import Prefill  # torch

        request = task.request
        if request.pictures:
            seen = yield from with_images(model, task)
            if seen is None:
                event = cancelled(record.trace)
                record.append(event)
                yield RunAdvanced(request.run_id, event)
                return
            task = seen
        cache, total, is_long = self._caches.lend(model, task.ids), len(task.ids), None
        self._admission.hold(request.run_id, cache, lambda: self.spare_bytes(model))
        is_sound = False
        try:
            for item in self.decode(model, task, cache):
                if isinstance(item, PromptScores):
                    yield PromptScored(request.run_id, item)
                    continue
                if not isinstance(item, Event):
                    if is_long is None:  # at the first pass, when the cache holds what the prompt shares with it
                        is_long = isinstance(item, Prefill) and total - cache.length > cache.piece
                    if is_long:
                        yield PromptRead(request.run_id, cache.length, total)
                    yield PassWanted(item)
                    continue
                is_long = False
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
        from engine.decoding.performing import perform_together  # torch

        passes = without_waiting(passes)
        whose = {id(wanted.what): wanted for wanted in passes}

        def performed(done: Pass) -> None:
            whose[id(done)].is_done = True

        perform_together(required(self._model), [cast("Pass", wanted.what) for wanted in passes], performed)

    def _prepared(self, model: Model, request: RunRequest) -> RunTask:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0].run_id == request.run_id:
            return ahead[1]
        return task_of(model, request, self._deciding, reads_system=self._reads_system)

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

    def decode(self, model: Model, task: RunTask, cache: KVCache) -> Iterable[Event | Pass | PromptScores]:
        return decode_task(model, task, cache)


def _deciding(model: Model) -> Deciding | None:
    """Returns the parts of a model that decisions need; None if it cannot decide."""
    try:
        return deciding_of(model)
    except SafelightError:
        return None


def _capabilities(model: Model, *, decides: bool) -> Capabilities:
    from engine.decoding.gap_plan import fills_gaps  # torch

    decoders = model.family.decoders
    can = dataclasses.replace(CAPABILITIES, decisions=decides, images=model.vision is not None, gaps=fills_gaps(model))
    can = dataclasses.replace(can, structured=any(able(name, "formats") for name in decoders))
    if BLOCK_DIFFUSION in decoders:
        return can
    infill, measures = able(decoders[0], "infills"), able(decoders[0], "measures")
    forks = any(able(name, "forks") for name in decoders)
    return dataclasses.replace(can, forks=forks, infill=infill, influence=measures)

"""Runs one model on this machine, and records every run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from engine.errors import SafelightError
from engine.events import CanvasCommitted, Event
from engine.service.admission import Admission
from engine.service.backend import RunSteps
from engine.service.failures import explained
from engine.service.local_model import LocalModel
from engine.service.meanwhile import without_waiting
from engine.service.recorder import RunRecord, cancelled
from engine.service.replies import PassWanted, RunAdvanced, RunEnded, RunStarted
from engine.service.requests import RunRequest
from engine.service.run_task import (
    RunRefusedError,
    RunTask,
    answer_of_task,
    decode_task,
    task_of,
    with_decoder,
    with_images,
)

if TYPE_CHECKING:
    from engine.decoding.protocols import Pass
    from engine.layers.kv_cache import KVCache
    from engine.models.model import Model
    from engine.text.formatted_answer import FormattedAnswer


class LocalBackend(LocalModel):
    """A ``Backend``: begins runs of the model that it holds, and performs their passes."""

    def __init__(self, traces: Path | None = None) -> None:
        super().__init__(traces)
        self._admission = Admission(self._caches)
        self._ahead: tuple[RunRequest, RunTask] | None = None  # prepared by ``admits``

    def sibling(self) -> LocalBackend:
        return LocalBackend(self._recorder.folder)

    def _forget_model(self) -> None:
        super()._forget_model()
        self._ahead = None

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
        if request.kind == "puzzle" and request.cancel.is_set():
            yield RunEnded(request.run_id)  # a queued run that was cancelled is not started
            return
        message = details = ""
        record: RunRecord | None = None
        answer: FormattedAnswer | None = None
        try:
            model = self._require_model()
            self._put_adapter(model, self._adapter_of(request))
            task = with_decoder(model, self._prepared(model, request))
            need = self.run_bytes(model, len(task.ids), task.request.config, self._admission.running)
            self._admission.begin(request.run_id, need)  # before the next run is admitted
            answer = yield from answer_of_task(model, task)
            record = self._recorder.begin(task.request, task.ids, model.tokenizer, task.slots)
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

    def _steps(self, model: Model, task: RunTask, record: RunRecord) -> RunSteps:
        """Yields the replies and passes of a run that has begun. Its cache serves later runs, unless the run fails."""
        request = task.request
        if request.pictures:
            seen = yield from with_images(model, task)
            if seen is None:
                event = cancelled(record.trace)
                record.append(event)
                yield RunAdvanced(request.run_id, event)
                return
            task = seen
        cache = self._caches.take(model, task.ids)
        self._admission.hold(request.run_id, cache, lambda: self.spare_bytes(model))
        is_sound = False
        try:
            for item in self.decode(model, task, cache):
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

    def decode(self, model: Model, task: RunTask, cache: KVCache) -> Iterable[Event | Pass]:
        """Runs a task in the engine; tests override it."""
        return decode_task(model, task, cache)

    def _prepared(self, model: Model, request: RunRequest) -> RunTask:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] is request:
            return ahead[1]
        return task_of(model, request, self._deciding, reads_system=self._reads_system)

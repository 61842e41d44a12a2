"""One run of a remote model: records its events here and yields them as replies."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from engine.events import Event, GenerationFinished, TextArrived
from engine.service.backend import RunSteps
from engine.service.recorder import Recorder, RunRecord, cancelled
from engine.service.remote.dialect import Dialect
from engine.service.remote.stream import BackgroundStream
from engine.service.replies import PassWanted, RunAdvanced, RunStarted
from engine.service.requests import RunRequest
from engine.trace.header import TraceHeader
from engine.trace.recording import Recording


class RemoteRun:
    """One run: its stream, and its record once it has begun."""

    def __init__(self, request: RunRequest, model: Dialect, recorder: Recorder, news: threading.Condition) -> None:
        self._request, self._model, self._recorder = request, model, recorder
        self._record: RunRecord | None = None
        self._begun: float | None = None  # when the first text came
        self._stream: BackgroundStream[TraceHeader | Event] = BackgroundStream(
            lambda check: model.read(request, check), news
        )

    def steps(self) -> RunSteps:
        """Yields its replies but the last."""
        stream, request = self._stream, self._request
        while not stream.is_over:
            if request.cancel.is_set():
                stream.close()
                if self._record is not None:
                    yield from self._reply(self._cancelled(self._record.trace))
                return
            items = stream.take()
            for item in _joined(items):
                yield from self._reply(item)
            if not items and not stream.is_over:
                yield PassWanted(stream)

    def _reply(self, item: TraceHeader | Event) -> RunSteps:
        if isinstance(item, TraceHeader):
            model = self._model.loaded
            keep = self._request.keep
            texts, pictures = (model.piece, model.is_special, model.decode), self._request.pictures
            self._record = self._recorder.open(item, *texts, pictures, keep=keep)
            if self._request.changes and self._request.source is not None:
                self._record.copy(self._request.source, self._request.departure.block)
            yield from self._recorder.take_warnings()
            yield RunStarted(self._request.run_id, self._record.trace)
        elif self._record is not None:
            if self._begun is None and isinstance(item, TextArrived):
                self._begun = time.monotonic()
            self._record.append(item)
            yield from self._recorder.take_warnings()
            yield RunAdvanced(self._request.run_id, item)

    def _cancelled(self, trace: Recording) -> GenerationFinished:
        steps = trace.steps
        seconds = time.monotonic() - self._begun if self._begun is not None else sum(step.seconds for step in steps)
        return cancelled(trace, len(steps), seconds)

    def end(self, failure: str) -> None:
        """Closes the stream and the record."""
        self._stream.close()
        if self._record is not None:
            self._record.end(failure)


def _joined(items: Sequence[TraceHeader | Event]) -> Sequence[TraceHeader | Event]:
    """Joins texts that came together, so that a fast server does not make a trace of single letters."""
    joined: list[TraceHeader | Event] = []
    for item in items:
        last = joined[-1] if joined else None
        if isinstance(item, TextArrived) and isinstance(last, TextArrived) and item.is_thought == last.is_thought:
            joined[-1] = TextArrived(last.text + item.text, last.is_thought, last.counted + item.counted)
        else:
            joined.append(item)
    return joined

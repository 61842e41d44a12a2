"""Takes down every run: in memory for the view, and in a file of its own where there is a folder for traces.

A file that cannot be written stops no run; it is said once, until one can be written again. Knows neither Qt nor torch.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import engine
from app.bridge.messages import ForkRequest, RunRequest, TraceNotKept, TrialRequest
from app.system.i18n import tr
from engine import (
    Event,
    GenerationConfig,
    GenerationFinished,
    ModelIdentity,
    Parent,
    Trace,
    TraceError,
    TraceHeader,
    TraceWriter,
)
from engine.trace import make_private

TOP_K = 8  # candidates a position that every run reports
RUNS_TO_PRUNE = 100  # the folder is looked through after the first run and after each of these


def reporting_candidates(config: GenerationConfig) -> GenerationConfig:
    """The settings with enough candidates reported; what is sampled stays the same."""
    return config if config.top_k >= TOP_K else config.replace(top_k=TOP_K)


def with_unmarked(run: Iterable[Event], before: Iterable[Event], marked: Collection[int]) -> Iterator[Event]:
    """An infilling's events with those of the blocks that it left alone, in the order of the blocks."""
    kept = [
        event for event in before if (block := getattr(event, "block_index", None)) is not None and block not in marked
    ]
    for event in run:
        ends = isinstance(event, GenerationFinished)
        here = getattr(event, "block_index", None)
        while kept and (ends or (here is not None and kept[0].block_index < here)):  # type: ignore[union-attr]
            yield kept.pop(0)
        yield event


class Recorder:
    """One run at a time, in the engine's thread.

    Args:
        folder: where the traces are kept; None keeps them in memory only.
        tell: takes the news that a trace is not kept.
    """

    def __init__(self, folder: Path | None, tell: Callable[[TraceNotKept], None]) -> None:
        self._folder, self._tell = folder, tell
        self._model: ModelIdentity | None = None
        self._trace: Trace | None = None
        self._writer: TraceWriter | None = None
        self._has_told = False
        self._is_ready = False  # the folder is there, and nobody else's to read
        self._runs = 0

    def model_loaded(self, model: ModelIdentity) -> None:
        """The runs that follow are this model's."""
        self._model = model

    def adapter_changed(self, adapter: Any) -> None:
        """The runs that follow are the model's with this ``engine.Adapter``, or with none."""
        if self._model is not None:
            name, told = ("", "") if adapter is None else (adapter.title, adapter.fingerprint)
            self._model = dataclasses.replace(self._model, adapter=name, adapter_fingerprint=told)

    def begin(self, model: Any, request: RunRequest | TrialRequest, ids: Sequence[int], *, keep: bool = True) -> Trace:
        """A run begins, with these tokens as its prompt. Without ``keep`` it is taken down in memory only.

        Returns:
            Its trace, which grows from now on.
        """
        header = TraceHeader(
            model=self._model or ModelIdentity(model.name),
            prompt=request.messages[-1]["content"],
            config=reporting_candidates(request.config),
            seed=request.seed,
            messages=request.messages,
            prompt_ids=tuple(int(token) for token in ids),
            think=request.think,
        )
        return self._open(model, header, keep=keep)

    def begin_fork(self, model: Any, request: ForkRequest, ids: Sequence[int]) -> Trace:
        """A recorded run is taken otherwise; the blocks before the change are taken down as they were.

        Returns:
            Its trace, which grows from now on.
        """
        before = request.trace.header
        newest = request.changes[-1] if request.changes else None
        block = newest.block if newest is not None else min(mark.block for mark in request.marks)
        header = dataclasses.replace(
            before,
            model=self._model or before.model,
            prompt_ids=tuple(int(token) for token in ids),
            parent=Parent(before.id, block, newest.step if newest is not None else 0),
            changes=request.changes,
            marks=request.marks,
            **TraceHeader.fresh(),
        )
        trace = self._open(model, header)
        if newest is not None:
            for event in request.trace.events:
                if getattr(event, "block_index", block) < block:
                    self.append(event)
        return trace

    def _open(self, model: Any, header: TraceHeader, *, keep: bool = True) -> Trace:
        tokenizer = model.tokenizer
        decode = functools.partial(engine.read_reply, tokenizer)
        self._trace = Trace(header=header, piece=tokenizer.piece, is_special=tokenizer.is_special, decode=decode)
        if self._folder is not None and keep:
            path = self._folder / f"{header.id}{engine.TRACE_SUFFIX}"
            self._writer = TraceWriter(path, header, tokenizer.piece, tokenizer.is_special, decode)
            self._trace.path = path
        return self._trace

    def append(self, event: Event) -> None:
        """Take down the run's next event."""
        if self._trace is not None:
            self._trace.append(event)
        self._write(lambda writer: writer.append(event))

    def end(self, failure: str = "") -> None:
        """The run is over; ``failure`` says why it ended early. Does nothing where none is under way."""
        if self._trace is not None and failure:
            self._trace.fail(failure)
        self._write(lambda writer: writer.close(failure))
        if self._writer is not None and self._folder is not None:
            self._has_told = False
            if self._runs % RUNS_TO_PRUNE == 0:
                engine.prune_traces(self._folder)
            self._runs += 1
        self._trace = self._writer = None

    def _write(self, write: Callable[[TraceWriter], None]) -> None:
        if self._writer is None or self._folder is None:
            return
        try:
            if not self._is_ready or not self._folder.exists():
                make_private(self._folder)
                self._is_ready = True
            write(self._writer)
        except Exception as error:  # whatever it is, the run goes on
            self._writer = None
            if self._trace is not None:
                self._trace.path = None
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            problem = why if isinstance(error, TraceError) else f"{self._folder} ({why})"
            if not self._has_told:
                self._has_told = True
                self._tell(
                    TraceNotKept(tr("Runs are not kept for replay now: {problem}.", problem=problem.rstrip(".")))
                )

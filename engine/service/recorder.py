"""Records every run: in memory for the view, and in its own file if there is a folder for traces.

A file that cannot be written does not stop the run. The failure is reported once, until writing works again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.config import GenerationConfig
from engine.errors import Sentence
from engine.events import Event, GenerationFinished
from engine.files import private_folder
from engine.pictures import Picture
from engine.service.replies import TraceNotKept
from engine.service.requests import (
    ChatRun,
    CompletionRun,
    ContinuedRun,
    DecisionRun,
    ForkRun,
    GapRun,
    RunRequest,
)
from engine.service.run_task import RunTask
from engine.text.gap_markers import TextGap
from engine.text.outline import as_written
from engine.text.reply import read_reply
from engine.trace.folder import prune_traces
from engine.trace.format import SUFFIX, TraceError
from engine.trace.header import ModelIdentity, Parent, TraceHeader, kept
from engine.trace.recording import Recording
from engine.trace.writer import Decode, IsSpecial, Piece, Trace, TraceWriter

if TYPE_CHECKING:
    from engine.adapters.lora import Adapter
    from engine.text.tokenizer import Tokenizer

TOP_K = 8  # candidates per position that every run reports
RUNS_TO_PRUNE = 100  # the folder is cleaned up after the first run, then each time after this many runs


def reporting_candidates(config: GenerationConfig) -> GenerationConfig:
    """Returns the settings with enough candidates reported; does not change the sampling."""
    return config if config.top_k >= TOP_K else config.replace(top_k=TOP_K)


def _title(task: RunTask) -> str:
    """Returns the prompt by which people know a run: a text with holes, else the user's last message."""
    match task.request:
        case ChatRun(noise=0.0, outline=outline) if outline:
            return as_written(outline)
        case CompletionRun(text=text) | GapRun(gap=TextGap(prefix=text)):
            return text
    asked = (message for message in reversed(task.messages) if message["role"] == "user")
    return str(next(asked, task.messages[-1])["content"])


class Recorder:
    """Begins the records of runs, in one thread.

    Args:
        folder: where traces are stored; None keeps them in memory only.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.model: ModelIdentity | None = None  # of the following runs, with its adapter
        self._warnings: list[TraceNotKept] = []
        self._has_warned = False
        self._is_ready = False  # the folder exists and is private to the user
        self._runs = 0

    def adapter_changed(self, adapter: Adapter | None) -> None:
        """Attributes the following runs to the model with this adapter, or with none."""
        if self.model is not None:
            name, fingerprint = ("", "") if adapter is None else (adapter.title, adapter.fingerprint)
            self.model = dataclasses.replace(self.model, adapter=name, adapter_fingerprint=fingerprint)

    def record(self, task: RunTask, tokenizer: Tokenizer) -> RunRecord:
        """Begins recording a run. For a fork, copies the blocks before the change from the source."""
        request, prompt_ids = task.request, tuple(int(token) for token in task.ids)
        if isinstance(request, ContinuedRun):
            return self._continue(request, prompt_ids, tokenizer)
        header = TraceHeader(
            model=self.model or ModelIdentity(""),
            prompt=_title(task),
            config=reporting_candidates(request.config),
            seed=request.seed,
            messages=tuple(map(kept, task.messages)),
            prompt_ids=prompt_ids,
            think=isinstance(request, ChatRun) and request.think,
            changes=task.changes,
            decision=request.decision if isinstance(request, DecisionRun) else None,
            slots=task.slots,
            output_format=task.output_format,
        )
        return self._of_model(header, tokenizer, request)

    def _continue(self, request: ContinuedRun, prompt_ids: tuple[int, ...], tokenizer: Tokenizer) -> RunRecord:
        before = request.source.header
        header = dataclasses.replace(
            before,
            model=self.model or before.model,
            prompt_ids=prompt_ids,
            parent=Parent(before.id, *request.place),
            changes=request.changes,
            marks=request.marks,
            output_format=None,
            **TraceHeader.fresh(),
        )
        record = self._of_model(header, tokenizer, request)
        if isinstance(request, ForkRun):
            record.copy(request.source, request.place[0])
        return record

    def _of_model(self, header: TraceHeader, tokenizer: Tokenizer, request: RunRequest) -> RunRecord:
        texts = tokenizer.piece, tokenizer.is_special, functools.partial(read_reply, tokenizer)
        return self.open(header, *texts, request.pictures, keep=request.keep)

    def open(
        self,
        header: TraceHeader,
        piece: Piece,
        is_special: IsSpecial,
        decode: Decode,
        pictures: tuple[Picture, ...] = (),
        *,
        keep: bool,
    ) -> RunRecord:
        """Begins recording a run whose header is known; the functions return the texts of its tokens."""
        trace = Trace(header=header, piece=piece, is_special=is_special, decode=decode, pictures=pictures)
        writer = None
        if self.folder is not None and keep:
            path = self.folder / f"{header.id}{SUFFIX}"
            writer = TraceWriter(path, header, piece, is_special, decode, pictures)
            trace.path = path
        return RunRecord(self, trace, writer)

    def take_warnings(self) -> list[TraceNotKept]:
        """Returns the warnings since the last call."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def prepare(self) -> None:
        """Makes the folder, private to the user.

        Raises:
            OSError: it cannot be made.
        """
        if self.folder is not None and (not self._is_ready or not self.folder.exists()):
            private_folder(self.folder)
            self._is_ready = True

    def was_stored(self) -> None:
        """Notes that a trace was written to its end; cleans up the folder now and then."""
        self._has_warned = False
        if self.folder is not None and self._runs % RUNS_TO_PRUNE == 0:
            prune_traces(self.folder)
        self._runs += 1

    def was_not_stored(self, error: Exception) -> None:
        """Warns that a trace cannot be written, unless no trace was stored since the last warning."""
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        problem = why if isinstance(error, TraceError) else f"{self.folder} ({why})"
        if not self._has_warned:
            self._has_warned = True
            pattern = "Runs are not kept for replay now: {problem}."
            self._warnings.append(TraceNotKept(Sentence(pattern, problem=problem.rstrip("."))))


def cancelled(trace: Recording, steps: int = 0, seconds: float = 0.0) -> GenerationFinished:
    """Returns the last event of a run that was cancelled; its text is that of the committed blocks."""
    rows = [event.tokens[: event.text_length] for event in trace.committed]
    tokens = np.concatenate(rows) if rows else np.empty(0, dtype=np.int32)
    return GenerationFinished("cancelled", tokens, len(rows), steps, seconds)


class RunRecord:
    """One run's trace, and its file if it has one."""

    def __init__(self, recorder: Recorder, trace: Trace, writer: TraceWriter | None) -> None:
        self.trace = trace
        self._recorder, self._writer = recorder, writer

    def append(self, event: Event) -> None:
        self.trace.append(event)
        self._write(lambda writer: writer.append(event))

    def end(self, failure: str = "") -> None:
        """Ends the recording; ``failure`` says why the run ended early."""
        if failure:
            self.trace.fail(failure)
        self._write(lambda writer: writer.close(failure))
        if self._writer is not None:
            self._recorder.was_stored()

    def copy(self, source: Recording, block: int) -> None:
        """Records the events of another run before a block."""
        for index, entry in enumerate(source.entries):
            if entry.kind in ("canvas", "step", "commit") and entry.block < block:
                self.append(source.event(index))

    def _write(self, write: Callable[[TraceWriter], None]) -> None:
        if self._writer is None:
            return
        try:
            self._recorder.prepare()
            write(self._writer)
        except Exception as error:  # the run continues whatever fails here
            self._writer = self.trace.path = None
            self._recorder.was_not_stored(error)

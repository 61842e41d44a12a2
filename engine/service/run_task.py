"""Makes a request to run ready for the engine: its prompt, its settings, its format and its pictures."""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from engine.decoders import BLOCK_DIFFUSION, Ability, able
from engine.decoding.names import formatting, names_of, require_able
from engine.errors import SafelightError
from engine.events import Event, PromptScores
from engine.forks import Fork
from engine.service.decisions import NO_INSTRUCTIONS, Deciding, reading_config
from engine.service.description import count_tokens, deciding_of, prompt_ids
from engine.service.outlining import outlined
from engine.service.replies import PassWanted
from engine.service.requests import (
    ChatRun,
    CompletionRun,
    ContinuedRun,
    DecisionRun,
    ForkRun,
    FormattedRun,
    GapRun,
    InfillRun,
    RunRequest,
)
from engine.tasks.decisions.layout import Layout, Slot
from engine.text.context_window import fit
from engine.text.message import Message
from engine.text.output_format import OutputFormat
from engine.trace.recording import Recording, entry_of
from engine.types import Cancel, LinkedFlag

if TYPE_CHECKING:
    from engine.decoding.gap_plan import GapPlan
    from engine.decoding.protocols import Pass
    from engine.layers.kv_cache import KVCache
    from engine.models.model import Model
    from engine.text.formatted_answer import FormattedAnswer

POLL_SECONDS = 0.05  # the wait if no other run has a pass to perform
T = TypeVar("T")


class RunRefusedError(Exception):
    """A run that cannot begin; the argument is the reason, empty if the run was cancelled."""


@dataclass(frozen=True)
class RunTask:
    """A run before its first pass: its request with the settings that it is decoded by, and its prompt."""

    request: RunRequest
    ids: Sequence[int]
    messages: tuple[Message, ...] = ()  # that the model reads
    changes: tuple[Fork, ...] = ()  # that lay an outline out
    layout: Layout | None = None  # of a decision's canvas
    answer: FormattedAnswer | None = None  # if the answer must fit a format
    gap: GapPlan | None = None  # of a completion that fills one

    @property
    def slots(self) -> tuple[Slot, ...]:
        return () if self.layout is None else self.layout.slots

    @property
    def output_format(self) -> OutputFormat | None:
        return self.request.output_format if isinstance(self.request, FormattedRun) else None

    def with_request(self, **changes: Any) -> RunTask:
        return dataclasses.replace(self, request=dataclasses.replace(self.request, **changes))


def task_of(model: Model, request: RunRequest, deciding: Deciding | None, *, reads_system: bool) -> RunTask:
    """Returns a request's task.

    Args:
        deciding: of the model, where it was made already.
        reads_system: the model's template writes a system message.

    Raises:
        SafelightError: the template rejects the messages, or the model cannot decide or fill gaps.
        RunRefusedError: the messages do not fit the context.
    """
    match request:
        case DecisionRun():
            return _decision_task(model, request, deciding or deciding_of(model), reads_system)
        case GapRun():
            return _gap_task(model, request)
        case ContinuedRun():
            return RunTask(request, prompt_ids(model, request), request.source.header.messages)
        case ChatRun():
            request = dataclasses.replace(request, messages=_messages_that_fit(model, request))
            task = RunTask(request, prompt_ids(model, request), request.messages)
            return _with_outline(model, task, request) if request.outline else task
    return RunTask(request, prompt_ids(model, request))


def _with_outline(model: Model, task: RunTask, request: ChatRun) -> RunTask:
    """Returns a task whose settings and changes lay its outline out behind its prompt.

    Raises:
        SafelightError: it does not fit, or the model does not write by block diffusion.
    """
    what = "revising a text" if request.noise else "filling in gaps"
    require_able(request.config, model.family.decoders, what)

    model_config = model.config
    config, changes = outlined(
        request.outline,
        request.noise,
        request.config,
        model_config.canvas_length,
        model.tokenizer.encode_inert,
        request.seed,
        model_config.max_position_embeddings - len(task.ids),
    )
    return dataclasses.replace(task.with_request(config=config), changes=changes)


def _decision_task(model: Model, request: DecisionRun, deciding: Deciding, reads_system: bool) -> RunTask:
    decision = request.decision
    if decision.instructions and not reads_system:
        raise SafelightError(NO_INSTRUCTIONS)
    layout = deciding.layout(decision)
    width = len(layout.canvas)
    config = reading_config(request.config, width, model.family.decoders[0])
    request = dataclasses.replace(request, config=config)
    ids, most = prompt_ids(model, request), model.config.max_position_embeddings
    if len(ids) + width > most:
        raise SafelightError(
            f"the state and its questions take {len(ids)} tokens and a canvas {width}; this model has {most} "
            "positions. Shorten the state, or ask fewer questions at once"
        )
    return RunTask(request, ids, deciding.messages(decision, request.pictures), layout=layout)


def _gap_task(model: Model, request: GapRun) -> RunTask:
    from engine.decoding.gap_plan import plan_gap  # torch

    plan = plan_gap(model, request.gap, request.config, length=request.length)
    return RunTask(dataclasses.replace(request, config=plan.config), plan.prompt, gap=plan)


def _messages_that_fit(model: Model, request: ChatRun) -> tuple[Message, ...]:
    """Returns the part of a conversation that fits the context.

    Tokens are counted in the thread of the runs, since an unknown template and tokenizer may be slow.
    """

    count = functools.partial(count_tokens, model, tools=request.tools, image_tokens=request.config.image_tokens)
    selection = fit(request.messages, count, model.config.max_position_embeddings, request.reserve)
    if selection.problem:
        raise RunRefusedError(selection.problem)
    return tuple(dict(message) for message in selection.kept)


def with_decoder(model: Model, task: RunTask) -> RunTask:
    """Returns a task whose settings name its decoder, unless that is block diffusion.

    Raises:
        SafelightError: the model's family does not have the decoder, or the decoder cannot do what is requested.
    """
    known, request = model.family.decoders, task.request
    if isinstance(request, ContinuedRun):
        ability: Ability = "infills" if isinstance(request, InfillRun) else "forks"
        require_able(request.source.header.config, known, "going on from a recorded run", ability)
    elif isinstance(request, FormattedRun) and request.is_held:
        decoder = formatting(request.config, known)
        if decoder != BLOCK_DIFFUSION:
            named = request.config.replace(decoder=decoder, token_thoughts=False)
            return task.with_request(config=named)
    elif not isinstance(request, DecisionRun):
        _, answer = names_of(request.config, known)
        named = request.config.replace(decoder=request.config.decoder or known[0])
        if not named.is_block_diffusion:
            task = task.with_request(config=named)
        if task.output_format is not None and (named.token_thoughts or not able(answer, "calls freely")):
            task = task.with_request(output_format=None)
    return task


def answer_of_task(model: Model, task: RunTask) -> Generator[PassWanted, None, FormattedAnswer | None]:
    """Makes the answer that a run must write; returns None where it has no format, or may do without.

    Raises:
        SafelightError: no answer can be held to the format.
    """
    request = task.request
    if not isinstance(request, FormattedRun) or request.output_format is None:
        return None
    from engine.decoding.generate import answer_of  # torch

    begun = functools.partial(answer_of, model, task.ids, request.config, request.output_format)
    try:
        return (yield from in_thread(begun, request.cancel))
    except SafelightError:
        if request.cancel.is_set():
            raise RunRefusedError("") from None
        if not request.is_held:
            return None
        raise


def with_images(model: Model, task: RunTask) -> Generator[PassWanted, None, RunTask | None]:
    """Reads the images of a prompt; returns the task with them, or None where the run was cancelled meanwhile."""
    from engine.decoding.protocols import ReadImages  # torch

    request = task.request
    reading = model.seeing(task.ids, task.messages, request.pictures, request.config.image_tokens)
    while not request.cancel.is_set():
        image_pass = ReadImages(reading)
        yield PassWanted(image_pass)
        if image_pass.failure is not None:
            raise image_pass.failure
        if image_pass.prompt is not None:
            return dataclasses.replace(task, ids=image_pass.prompt)
    return None


def decode_task(model: Model, task: RunTask, cache: KVCache) -> Iterable[Event | Pass | PromptScores]:
    """Runs a task; yields its events, and the passes whose results it needs.

    The scores of its prompt come before these.
    """
    from engine.decoding.gap_filling import Deadline, decode_gap  # torch
    from engine.decoding.generate import decode, decode_fork, decode_infill  # torch
    from engine.decoding.prefill import with_scores
    from engine.decoding.reading import reading
    from engine.decoding.run import Run

    request = task.request
    cancel = Deadline(request.cancel, request.seconds) if isinstance(request, GapRun) else request.cancel
    run = Run.from_ids(model, task.ids, request.config, request.seed, cancel, cache, task.answer)
    match request:
        case GapRun() if task.gap is not None:
            return decode_gap(run, dataclasses.replace(task.gap, config=request.config))
        case DecisionRun() if task.layout is not None:
            return reading(run, task.layout, request.decision.repeats)
        case CompletionRun() if request.prompt_scores is not None:
            return with_scores(run, request.prompt_scores, decode(run))
        case InfillRun():
            rows, source = [event.tokens for event in request.source.committed], request.source
            marked = {mark.block for mark in request.marks}
            return with_unmarked(decode_infill(run, rows, request.marks), source, marked)
        case ForkRun():
            committed, known = request.source.committed, request.place[0]
            rows, steps = [event.tokens for event in committed], [event.steps for event in committed]
            return decode_fork(run, rows[:known], steps[: known + 1], request.changes)
    return decode(dataclasses.replace(run, changes=task.changes))


def with_unmarked(run: Iterable[Event | Pass], source: Recording, marked: Collection[int]) -> Iterator[Event | Pass]:
    """Yields an infilling's items, and the source's events for blocks that it did not change, in block order."""
    kept = deque(place for place, entry in enumerate(source.entries) if entry.block >= 0 and entry.block not in marked)
    for item in run:
        if isinstance(item, Event):
            here = entry_of(item)
            while kept and (here.kind == "end" or source.entries[kept[0]].block < here.block):
                yield source.event(kept.popleft())
        yield item


def in_thread(work: Callable[[Cancel], T], cancel: Cancel) -> Generator[PassWanted, None, T]:
    """Does work that may take seconds in a thread, while other runs go on, and returns its result.

    The work gets a flag that is set once its result is not needed.

    Raises:
        Exception: whatever the work raises.
    """
    stop = LinkedFlag(cancel)
    with ThreadPoolExecutor(1, "safelight-meanwhile") as pool:
        try:
            future = pool.submit(work, stop)
            while not future.done():
                yield PassWanted(future)
        except BaseException:
            stop.is_own = True
            raise
    return future.result()


def without_waiting(passes: Sequence[PassWanted]) -> list[PassWanted]:
    """Returns the passes to perform; if there is none, waits a moment for the work in other threads."""
    works = [wanted.what for wanted in passes if isinstance(wanted.what, Future)]
    others = [wanted for wanted in passes if not isinstance(wanted.what, Future)]
    if works and not others:
        wait(works, POLL_SECONDS, FIRST_COMPLETED)
    return others

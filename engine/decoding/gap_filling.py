"""Fills a gap in a text: writes what stands between a prefix and a suffix, as ``gap_plan`` has planned it."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.config import GenerationConfig
from engine.decoding.block_diffusion import Usage, denoise_block, finished
from engine.decoding.fork_schedule import ForkSchedule
from engine.decoding.gap_plan import GapCanvas, GapPlan, plan_gap
from engine.decoding.generate import decode
from engine.decoding.infilling import MarkedSpan
from engine.decoding.performing import perform_all
from engine.decoding.prefill import read_prompt
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.events import CanvasCommitted, GenerationFinished, PrefillFinished, StepFinished
from engine.layers.kv_cache import KVCache
from engine.models.model import Model
from engine.text.gap_markers import GapFile, TextGap
from engine.types import Cancel, LinkedFlag, Tokens

DEFAULT_TOKENS = 128  # the most of a gap
LATE = "the time was over"


@dataclass(frozen=True)
class Filled:
    """A text for a gap, and how it came about."""

    text: str
    length: int  # tokens
    steps: int
    seconds: float


class Deadline(LinkedFlag):
    """A flag that is set with another one, or once the time is over.

    Args:
        seconds: from ``begin`` on; None: no end.
    """

    def __init__(self, cancel: Cancel | None, seconds: float | None) -> None:
        super().__init__(cancel)
        self._seconds, self._end = seconds, math.inf

    def begin(self) -> None:
        """Counts the time from now on, if it is not counted yet."""
        if self._seconds is not None and self._end == math.inf:
            self._end = time.perf_counter() + self._seconds

    def is_set(self) -> bool:
        return self.is_others or time.perf_counter() >= self._end


def infill(
    model: Model,
    prefix: str,
    suffix: str,
    *,
    length: int | None = None,
    instruction: str = "",
    max_tokens: int = DEFAULT_TOKENS,
    seconds: float | None = None,
    seed: int = 0,
    cancel: Cancel | None = None,
    path: str = "",
    files: Sequence[GapFile] = (),
    config: GenerationConfig | None = None,
    cache: KVCache | None = None,
) -> Filled | None:
    """Writes the text between a prefix and a suffix, and nothing else.

    Args:
        model: from ``load_model``: of block diffusion, one that reads whole texts, or one with the tokens of gaps.
        length: exactly so many tokens, where the model writes on a canvas; None: not known.
        instruction: to a model that answers messages; empty: to fill in the gap.
        max_tokens: of the gap, at most; a hole that is padded may have more.
        seconds: no step is taken so many after the prompt was read. A text that is written token by token is then
            cut; of a hole of noise that is not filled there is the beginning that the last step accepted.
        cancel: read between steps; then nothing is returned.
        path, files: of the file with the gap, and others, the least important first.
        config: the decoder and its settings; None takes the model's.
        cache: as for ``generate``.

    Returns:
        None if it was cancelled, or if nothing was ready in time.

    Raises:
        SafelightError: as ``plan_gap``; a number that is out of bounds; non-finite logits.
    """
    deadline = Deadline(cancel, seconds)
    settings = (config or model.generation_defaults).replace(max_new_tokens=max_tokens)
    gap = TextGap(prefix, suffix, path, tuple(files))
    plan = plan_gap(model, gap, settings, length=length, instruction=instruction)
    run = Run.from_ids(model, plan.prompt, plan.config, seed, deadline, cache)
    *_, end = perform_all(model, decode_gap(run, plan))
    assert isinstance(end, GenerationFinished), "a run has an end"
    if end.reason == "cancelled" or (end.why == LATE and not len(end.tokens)):
        return None
    return Filled(model.tokenizer.decode(end.tokens), len(end.tokens), end.steps, end.seconds)


def decode_gap(run: Run, plan: GapPlan) -> Decoding[None]:
    """Fills a gap; on a canvas, yields the events of one block with the text alone.

    Args:
        run: of the plan's prompt and settings; its ``cancel`` may be a ``Deadline``.
    """
    if plan.canvas is None:
        return _written_behind(run)
    return _in_masks(run, plan.canvas) if plan.is_masked else _on_noise(run, plan, plan.canvas)


def _written_behind(run: Run) -> Decoding[None]:
    for item in decode(run):
        if isinstance(item, PrefillFinished):
            _begin_time(run)
        yield _in_time(item, run) if isinstance(item, GenerationFinished) else item


def _begin_time(run: Run) -> None:
    if isinstance(run.cancel, Deadline):
        run.cancel.begin()


def _in_time(end: GenerationFinished, run: Run) -> GenerationFinished:
    """Returns the end of a run; one that was ended by a deadline is cut by its length."""
    deadline = run.cancel
    if end.reason == "cancelled" and isinstance(deadline, Deadline) and not deadline.is_others:
        return dataclasses.replace(end, reason="length", why=LATE)
    return end


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def _on_noise(run: Run, plan: GapPlan, canvas: GapCanvas) -> Decoding[None]:
    started, usage = time.perf_counter(), Usage()
    if not (yield from read_prompt(run, len(canvas))):
        yield _in_time(finished("cancelled", [], usage), run)
        return
    _begin_time(run)
    banned = set(plan.config.banned_tokens).union(plan.config.eos_token_ids)
    banned = banned - {plan.config.pad_token_id} if plan.is_padded else banned | {plan.config.pad_token_id}
    config = plan.config.replace(
        canvas_length=len(canvas),
        pinned=tuple(enumerate(canvas.behind, canvas.hole)),
        banned_tokens=tuple(sorted(banned)),
    )
    decoding = denoise_block(ForkSchedule(dataclasses.replace(run, config=config)), 0, usage)
    last: StepFinished | None = None
    while True:
        try:
            item = next(decoding)
        except StopIteration as end:
            filled = end.value
            break
        last = item if isinstance(item, StepFinished) else last
        yield item
    usage = Usage(usage.steps, time.perf_counter() - started)
    if filled is not None:
        tokens = _before_padding(filled.last.argmax[: canvas.hole], plan)
        yield filled.committed(0, *_alone(tokens, len(canvas), plan.config))
        yield finished("eos", [tokens], usage)
        return
    ended = _in_time(finished("cancelled", [], usage), run)
    tokens = _settled(last, canvas, plan)
    if ended.reason == "length" and len(tokens):
        row, length = _alone(tokens, len(canvas), plan.config)
        yield CanvasCommitted(0, row, length, usage.steps, "step_cap")
        ended = finished("length", [tokens], usage, LATE)
    yield ended


def _settled(last: StepFinished | None, canvas: GapCanvas, plan: GapPlan) -> Tokens:
    """Returns the tokens of a hole that its last step accepted, up to the first that it did not, or to padding."""
    if last is None:
        return np.empty(0, dtype=np.int32)
    open_places = np.flatnonzero(~last.accepted_mask[: canvas.hole])
    end = int(open_places[0]) if len(open_places) else canvas.hole
    return _before_padding(last.next_canvas[:end], plan)


@torch.inference_mode()
def _in_masks(run: Run, canvas: GapCanvas) -> Decoding[None]:
    """Fills the hole as a marked span of a finished text."""
    started = time.perf_counter()
    run.cache.truncate(0)
    _begin_time(run)
    yield PrefillFinished(len(run.prompt), 0, 0.0)
    banned = {*run.config.banned_tokens, *run.config.eos_token_ids, run.config.pad_token_id}
    row = np.array([run.config.pad_token_id] * canvas.hole + list(canvas.behind), dtype=np.int32)
    own = dataclasses.replace(run, config=run.config.replace(banned_tokens=tuple(sorted(banned))))
    span = MarkedSpan(own, [row], 0, range(canvas.hole))
    yield from span.write_anew()
    run.cache.truncate(0)
    usage = Usage(span.steps, time.perf_counter() - started)
    if run.is_cancelled:
        yield _in_time(finished("cancelled", [], usage), run)
        return
    tokens = span.row[: canvas.hole]
    yield CanvasCommitted(0, *_alone(tokens, len(row), run.config), span.steps, "converged")
    yield finished("eos", [tokens], usage)


def _before_padding(tokens: Tokens, plan: GapPlan) -> Tokens:
    """Returns the text of a hole (N,): the tokens before its padding."""
    padding = np.flatnonzero(tokens == plan.config.pad_token_id)
    return tokens[: padding[0]] if plan.is_padded and len(padding) else tokens


def _alone(tokens: Tokens, length: int, config: GenerationConfig) -> tuple[Tokens, int]:
    """Returns a block (C,) with only a text, an end token and padding; and the number of the text's tokens."""
    row = np.full(length, config.pad_token_id, dtype=np.int32)
    row[: len(tokens)] = tokens
    if len(tokens) < length and config.eos_token_ids:
        row[len(tokens)] = config.eos_token_ids[0]
    return row, len(tokens)

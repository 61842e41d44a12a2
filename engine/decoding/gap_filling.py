"""Fills a gap in a text: writes what stands between a prefix and a suffix, as ``gap_plan`` has planned it.

Holes of several lengths are filled side by side, as runs of the same prompt: their passes are performed at once. Each
text is then read causally behind the prefix, with the first tokens of the suffix behind it, by the same weights. The
best is the one whose tokens and those of the suffix have the highest mean log-probability. Models that only read whole
texts have no causal pass; there the probabilities count with which the tokens were written.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from engine.config import LARGEST_SEED, MOST_CANDIDATES, GenerationConfig
from engine.decoding.block_diffusion import FinishedCanvas, Usage, denoise_block, finished
from engine.decoding.fork_schedule import ForkSchedule
from engine.decoding.gap_plan import GapCanvas, GapPlan, plan_gap
from engine.decoding.generate import decode
from engine.decoding.masked_infilling import MarkedSpan
from engine.decoding.prefill import read_prompt
from engine.decoding.program_cache import HasStepProgram
from engine.decoding.protocols import Decoding, Pass, Several, SinglePass
from engine.decoding.run import Run
from engine.decoding.scoring import score_text
from engine.decoding.together import perform_together
from engine.errors import SafelightError
from engine.events import (
    CanvasCommitted,
    Event,
    GapFilled,
    GapText,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
)
from engine.layers.kv_cache import KVCache
from engine.models.model import Model
from engine.text.gap_markers import GapFile, TextGap
from engine.types import Cancel, Tokens

SIDE_BY_SIDE = 4  # holes that are filled at once; the memory of as many runs is planned
DEFAULT_TOKENS = 128  # the most of a gap
OTHER_TEMPERATURE = 0.8  # at least, of the second candidate and later ones that are written token by token
LATE = "the time was over"

GapDecoding = Iterator[Event | Pass | GapFilled]


@dataclass(frozen=True)
class Filled:
    """A text for a gap, and how it came about."""

    text: str
    score: float  # nats: mean log-probability of its tokens and of the first behind the gap; NaN where not known
    length: int  # tokens
    steps: int
    seconds: float


class Deadline:
    """A flag that is set with another one, or once the time is over.

    Args:
        seconds: from ``begin`` on; None: no end.
    """

    def __init__(self, cancel: Cancel | None, seconds: float | None) -> None:
        self._cancel, self._seconds, self._end = cancel, seconds, math.inf

    def begin(self) -> None:
        """Counts the time from now on, if it is not counted yet."""
        if self._seconds is not None and self._end == math.inf:
            self._end = time.perf_counter() + self._seconds

    @property
    def is_cancelled(self) -> bool:
        return self._cancel is not None and self._cancel.is_set()

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self._end

    def is_set(self) -> bool:
        return self.is_cancelled or self.is_over


def infill(
    model: Model,
    prefix: str,
    suffix: str,
    *,
    lengths: Sequence[int] | None = None,
    length: int | None = None,
    candidates: int = 1,
    instruction: str = "",
    max_tokens: int = DEFAULT_TOKENS,
    seconds: float | None = None,
    seed: int = 0,
    cancel: Cancel | None = None,
    path: str = "",
    files: Sequence[GapFile] = (),
    config: GenerationConfig | None = None,
    cache: KVCache | None = None,
) -> list[Filled]:
    """Writes the text between a prefix and a suffix, and nothing else.

    Args:
        model: from ``load_model``: of block diffusion, one that reads whole texts, or one with the tokens of gaps.
        lengths: of the holes that are compared, in tokens, where the model writes on a canvas; None chooses.
        length: exactly so many tokens, there; None: not known.
        candidates: how many texts are returned, at most; further ones come of further seeds.
        instruction: to a model that answers messages; empty: to fill in the gap.
        max_tokens: of the gap, at most; on a canvas rounded up to the length of a hole.
        seconds: no step is taken so many after the prompt was read. A text that is written token by token is then
            cut. If no hole was filled, there is one text at most: the longest beginning of a hole whose tokens the last
            step accepted.
        seed: of the first candidate.
        cancel: read between steps; then nothing is returned.
        path, files: of the file with the gap, and others, the least important first.
        config: the decoder and its settings; None takes the model's.
        cache: as for ``generate``.

    Returns:
        Different texts, the best first; none if it was cancelled, or if none was ready in time.

    Raises:
        SafelightError: as ``plan_gap``; a number that is out of bounds; non-finite logits.
    """
    if not 1 <= candidates <= MOST_CANDIDATES:
        raise SafelightError(f"a gap has 1 to {MOST_CANDIDATES} candidates, not {candidates}")
    deadline = Deadline(cancel, seconds)
    settings = (config or model.generation_defaults).replace(max_new_tokens=max_tokens)
    gap = TextGap(prefix, suffix, path, tuple(files))
    plan = plan_gap(model, gap, settings, lengths=lengths, length=length, instruction=instruction)
    run = Run.from_ids(model, plan.prompt, plan.config, seed, deadline, cache)
    found = list[GapText]()
    for item in _performed(model, decode_gap(run, plan, candidates)):
        if isinstance(item, GapFilled):
            found += item.texts
    texts = {model.tokenizer.decode(one.tokens): one for one in reversed(found)}
    best = sorted(texts.items(), key=lambda pair: found.index(pair[1]))[:candidates]
    return [Filled(text, one.score, len(one.tokens), one.steps, one.seconds) for text, one in best]


@torch.inference_mode()
def _performed(model: Model, decoding: GapDecoding) -> Iterator[Event | GapFilled]:
    for item in decoding:
        if isinstance(item, Pass):
            perform_together(model, [item])
        else:
            yield item


def decode_gap(run: Run, plan: GapPlan, candidates: int = 1, *, scores: bool = True) -> GapDecoding:
    """Fills a gap; yields the events of one block with the best text alone, and ``GapFilled`` before the last event.

    Args:
        run: of the plan's prompt and settings; its ``cancel`` may be a ``Deadline``.
        candidates: how many texts are made, at least; with canvases, at least one for each.
        scores: texts are scored even if there is only one.
    """
    if not plan.canvases:
        return _written_behind(run, plan, candidates, scores=scores or candidates > 1)
    rounds = -(-candidates // len(plan.canvases))
    tries = [(canvas, _seed(run, number)) for number in range(rounds) for canvas in plan.canvases]
    if plan.is_masked:
        return _in_masks(run, tries)
    return _on_noise(run, plan, tries, scores=scores or len(tries) > 1)


# --- behind a prompt ----------------------------------------------------------------------------------------------


@torch.inference_mode()
def _written_behind(run: Run, plan: GapPlan, candidates: int, *, scores: bool) -> GapDecoding:
    """Writes candidates one after the other; the events are those of the best, or of the first as it is written."""
    kept, texts = list[list[Event]](), list[GapText]()
    for number in range(candidates):
        config, events = run.config, list[Event]()
        if number:
            config = config.replace(sampling_temperature=max(config.sampling_temperature, OTHER_TEMPERATURE))
        own = dataclasses.replace(run, config=config, seed=_seed(run, number))
        end: GenerationFinished | None = None
        for item in decode(own):
            if isinstance(item, PrefillFinished):
                _begin_time(run)
            if isinstance(item, GenerationFinished):
                end = _in_time(item, run)
            elif isinstance(item, Event) and candidates > 1:
                events.append(item)
            else:
                yield item
        assert end is not None, "a run has an end"
        if end.reason == "cancelled":
            yield end
            return
        score = math.nan
        if scores and not run.is_cancelled:
            score = yield from score_text(run, end.tokens.tolist(), plan.head)
        texts.append(GapText(end.tokens, score, 0, end.steps, end.seconds))
        kept.append([*events, end])
        if run.is_cancelled:
            break
    best = _best_first(texts)
    yield from kept[texts.index(best[0])][:-1]
    yield GapFilled(best)
    yield kept[texts.index(best[0])][-1]


def _begin_time(run: Run) -> None:
    if isinstance(run.cancel, Deadline):
        run.cancel.begin()


def _in_time(end: GenerationFinished, run: Run) -> GenerationFinished:
    """Returns the end of a run; one that was ended by a deadline is cut by its length."""
    deadline = run.cancel
    if end.reason == "cancelled" and isinstance(deadline, Deadline) and not deadline.is_cancelled:
        return dataclasses.replace(end, reason="length", why=LATE)
    return end


# --- on canvases --------------------------------------------------------------------------------------------------


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def _on_noise(run: Run, plan: GapPlan, tries: Sequence[tuple[GapCanvas, int]], *, scores: bool) -> GapDecoding:
    started = time.perf_counter()
    most = max(len(canvas) for canvas, _ in tries)
    if not (yield from read_prompt(run, most)):
        yield _in_time(finished("cancelled", [], Usage()), run)
        return
    _begin_time(run)
    own_caches = len(tries) > 1 and isinstance(run.model, HasStepProgram) and run.model.has_step_program
    fillings = [
        _Filling(run, plan, canvas, seed, run.cache.copy() if own_caches else run.cache) for canvas, seed in tries
    ]
    for start in range(0, len(fillings), SIDE_BY_SIDE):
        yield from _side_by_side(fillings[start : start + SIDE_BY_SIDE], is_shown=len(fillings) == 1)
    done = [filling for filling in fillings if filling.canvas is not None]
    steps = sum(filling.usage.steps for filling in fillings)
    if not done:
        yield from _settled_in_time(run, fillings, Usage(steps, time.perf_counter() - started))
        return
    for filling in done:
        if scores and not run.is_cancelled:
            filling.score = yield from score_text(run, filling.tokens.tolist(), plan.head)
    best = _best_first([filling.text for filling in done])
    chosen = next(filling for filling in done if filling.tokens is best[0].tokens)
    if isinstance(run.cancel, Deadline) and run.cancel.is_cancelled:
        yield finished("cancelled", [], Usage(steps, time.perf_counter() - started))
        return
    yield from chosen.events
    yield chosen.committed
    yield GapFilled(best)
    yield finished("eos", [chosen.tokens], Usage(steps, time.perf_counter() - started))


def _settled_in_time(run: Run, fillings: Sequence[_Filling], usage: Usage) -> GapDecoding:
    """Ends a run none of whose holes was filled; if its time was over, with the longest text that has settled."""
    longest = max(fillings, key=lambda filling: len(filling.settled))
    tokens, end = longest.settled, _in_time(finished("cancelled", [], usage), run)
    if end.reason == "length" and longest.last is not None and len(tokens):
        row, length = _alone(tokens, len(longest.last.next_canvas), run.config)
        yield from longest.events
        yield CanvasCommitted(0, row, length, longest.usage.steps, "step_cap")
        yield GapFilled((GapText(tokens, math.nan, longest.hole, longest.usage.steps, longest.usage.seconds),))
        end = finished("length", [tokens], usage, LATE)
    yield end


class _Filling:
    """One hole that is filled on a canvas of noise.

    Args:
        cache: holds the prompt; others may read it, too.
    """

    def __init__(self, run: Run, plan: GapPlan, canvas: GapCanvas, seed: int, cache: KVCache) -> None:
        config, self.hole, self.plan = plan.config, canvas.hole, plan
        banned = set(config.banned_tokens).union(config.eos_token_ids)
        banned = banned - {config.pad_token_id} if plan.is_padded else banned | {config.pad_token_id}
        config = config.replace(
            canvas_length=len(canvas),
            pinned=tuple(enumerate(canvas.behind, canvas.hole)),
            banned_tokens=tuple(sorted(banned)),
        )
        own = dataclasses.replace(run, config=config, seed=seed, cache=cache)
        self.usage, self.events = Usage(), list[Event]()
        self.canvas: FinishedCanvas | None = None
        self.last: StepFinished | None = None
        self.score = math.nan
        self.decoding = denoise_block(ForkSchedule(own), 0, self.usage)

    @cached_property
    def tokens(self) -> Tokens:
        """The text's tokens."""
        assert self.canvas is not None, "the hole was filled"
        return _before_padding(self.canvas.last.argmax[: self.hole], self.plan)

    @property
    def settled(self) -> Tokens:
        """The tokens of the hole that the last step accepted, up to the first that it did not, or to padding."""
        if self.last is None:
            return np.empty(0, dtype=np.int32)
        open_places = np.flatnonzero(~self.last.accepted_mask[: self.hole])
        end = int(open_places[0]) if len(open_places) else self.hole
        return _before_padding(self.last.next_canvas[:end], self.plan)

    @property
    def text(self) -> GapText:
        return GapText(self.tokens, self.score, self.hole, self.usage.steps, self.usage.seconds)

    @property
    def committed(self) -> CanvasCommitted:
        """The event of the block: the text alone, and an end token."""
        assert self.canvas is not None, "the hole was filled"
        return self.canvas.committed(0, *_alone(self.tokens, len(self.canvas.last.argmax), self.plan.config))


def _side_by_side(fillings: Sequence[_Filling], *, is_shown: bool) -> Decoding[None]:
    """Fills holes, each step of all of them in one pass; their events are kept, or yielded if ``is_shown``."""
    waiting = list(fillings)
    while waiting:
        passes, left = list[SinglePass](), list[_Filling]()
        for filling in waiting:
            wanted = None
            while wanted is None:
                try:
                    item = next(filling.decoding)
                except StopIteration as end:
                    filling.canvas = end.value
                    break
                if isinstance(item, Event):
                    filling.last = item if isinstance(item, StepFinished) else filling.last
                    if is_shown:
                        yield item
                    else:
                        filling.events.append(item)
                else:
                    assert not isinstance(item, Several)
                    wanted = item
            if wanted is not None:
                passes.append(wanted)
                left.append(filling)
        waiting = left
        if len(passes) > 1:
            yield Several(tuple(passes))
        else:
            yield from passes


@torch.inference_mode()
def _in_masks(run: Run, tries: Sequence[tuple[GapCanvas, int]]) -> GapDecoding:
    """Fills the holes one after the other, each as a marked span of a finished text."""
    started, texts, kept = time.perf_counter(), list[GapText](), list[list[Event]]()
    run.cache.truncate(0)
    _begin_time(run)
    yield PrefillFinished(len(run.prompt), 0, 0.0)
    banned = {*run.config.banned_tokens, *run.config.eos_token_ids, run.config.pad_token_id}
    for canvas, seed in tries:
        config = run.config.replace(
            banned_tokens=tuple(sorted(banned)),
            top_k=max(1, run.config.top_k),
        )
        row = np.array([run.config.pad_token_id] * canvas.hole + list(canvas.behind), dtype=np.int32)
        own = dataclasses.replace(run, config=config, seed=seed)
        span, events, clock = MarkedSpan(own, [row], 0, range(canvas.hole)), list[Event](), time.perf_counter()
        for item in span.write_anew():
            if isinstance(item, Pass):
                yield item
            else:
                events.append(item)
        run.cache.truncate(0)
        if run.is_cancelled:
            break
        tokens = span.row[: canvas.hole]
        score = _written_score(events, canvas.hole)
        texts.append(GapText(tokens, score, canvas.hole, span.steps, time.perf_counter() - clock))
        alone, length = _alone(tokens, len(row), run.config)
        kept.append([*events, CanvasCommitted(0, alone, length, span.steps, "converged")])
    usage = Usage(sum(text.steps for text in texts), time.perf_counter() - started)
    ended = _in_time(finished("cancelled", [], usage), run)
    if not texts or (run.is_cancelled and ended.reason == "cancelled"):
        yield ended
        return
    best = _best_first(texts)
    yield from kept[texts.index(best[0])]
    yield GapFilled(best)
    yield finished("eos", [best[0].tokens], usage)


def _written_score(events: Sequence[Event], hole: int) -> float:
    """Returns the mean log-probability with which the tokens of a hole were written, NaN where it is not known."""
    found, before = list[float](), np.zeros(hole, dtype=np.bool_)
    for event in events:
        if not isinstance(event, StepFinished) or event.top_tokens is None or event.top_probabilities is None:
            continue
        now = event.accepted_mask[:hole]
        for place in np.flatnonzero(now & ~before).tolist():
            is_it = event.top_tokens[place] == event.next_canvas[place]
            share = float(event.top_probabilities[place][is_it].max(initial=0.0))
            found.append(math.log(share) if share > 0.0 else math.log(1e-9))
        before = now
    return sum(found) / len(found) if found else math.nan


# --- what they share ----------------------------------------------------------------------------------------------


def _seed(run: Run, number: int) -> int:
    """Returns the seed of a candidate, counted from 0."""
    return (run.seed + number) % (LARGEST_SEED + 1)


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


def _best_first(texts: Sequence[GapText]) -> tuple[GapText, ...]:
    """Returns texts by their score; equal ones in their order."""
    return tuple(sorted(texts, key=lambda text: -text.score if math.isfinite(text.score) else math.inf))

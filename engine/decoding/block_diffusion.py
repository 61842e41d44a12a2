"""Block diffusion: denoises a canvas until it converges, commits its argmax, and continues with the next.

A stepper takes the steps; see ``steppers``. A run may begin behind known blocks, and may be changed between its
steps; see ``fork_schedule``.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.fork_schedule import ForkSchedule
from engine.decoding.prefill import prefill, reuse_prefix
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.decoding.sampler import Edits, to_host
from engine.decoding.steppers import Step
from engine.errors import SafelightError
from engine.events import (
    BlockEnd,
    CanvasCommitted,
    CanvasStarted,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
)
from engine.types import Tokens

FALL = 0.2  # share of the mean entropy by which it must fall to count


@dataclass(frozen=True)
class StallWatch:
    """The mean entropy of a canvas over its steps, by which it is seen that it no longer gets surer.

    A canvas that settles gets surer at each step, and fastest at its end. One that does not settle keeps its doubts:
    its entropy then falls only with the temperature, or goes up and down between two drafts.

    Args:
        steps: a canvas has stalled after so many steps in a row without a fall; 0 switches the watch off.
        level: nats at the latest fall.
        since: steps taken after that.
    """

    steps: int
    level: float = math.inf
    since: int = 0

    def after(self, entropy: float) -> StallWatch:
        """Returns the watch after the next step, with its mean entropy in nats."""
        if entropy < self.level * (1 - FALL):
            return replace(self, level=entropy, since=0)
        return replace(self, since=self.since + 1)

    @property
    def has_stalled(self) -> bool:
        return 0 < self.steps <= self.since

    @property
    def may_stall(self) -> bool:
        """True if the next step may be the last, so that none may be launched before its facts are known."""
        return 0 < self.steps <= self.since + 1


@dataclass
class Usage:
    """The steps and seconds that a run has taken."""

    steps: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class FinishedCanvas:
    last: Step
    steps: int
    has_stalled: bool = False

    @property
    def reason(self) -> BlockEnd:
        return "converged" if self.last.converged else "stalled" if self.has_stalled else "step_cap"

    def committed(self, block: int, tokens: Tokens, text_length: int) -> CanvasCommitted:
        """Returns the event of the canvas, with its tokens as the text has them."""
        return CanvasCommitted(block, tokens, text_length, self.steps, self.reason)


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def block_diffusion(run: Run, known: Sequence[Tensor] = (), known_steps: Sequence[int] = ()) -> Decoding[None]:
    """Generates text after the prompt. A cancelled run ends within one step.

    Denoising reads only the cache, so text that the cache holds completely is not read again.

    Args:
        known, known_steps: the argmax canvases (C,) of the run's first blocks, which are not run again, and the steps
            of each.
    """
    started, prompt, cache = time.perf_counter(), run.prompt, run.cache
    schedule, room = ForkSchedule(run), room_for_blocks(run, run.canvas_length) * run.canvas_length
    stepper, written = schedule.stepper, 0
    done, usage = [to_host(row) for row in known], Usage(sum(known_steps))
    for block, (row, steps) in enumerate(zip(known, known_steps, strict=True)):
        schedule.skip_block(block, written, row, steps)
        written += len(row)
    held = known[:-1] if stepper.commits_with_step else known  # the next step reads the last one
    kept = reuse_prefix(cache, [prompt, *held])
    cache.reserve(len(prompt) + min(room, _rounded_up(schedule.config, run.canvas_length)))
    is_read = yield from prefill([prompt], cache, run.cancel)
    for end, row in zip(itertools.accumulate(map(len, known)), known, strict=True):
        is_read = is_read and not run.is_cancelled
        if is_read and end > kept - len(prompt):
            yield from stepper.commit(row)
    if not is_read:
        yield finished("cancelled", done, usage)
        return
    yield PrefillFinished(len(prompt), min(kept, len(prompt)), time.perf_counter() - started)

    before: FinishedCanvas | None = None
    reason: Literal["eos", "length"] = "length"
    for block in itertools.count(len(done)):
        edits = schedule.open(block, written)
        length = stepper.sampler.length
        if written >= schedule.config.max_new_tokens or written + length > room:
            break
        if before is not None:
            clock = time.perf_counter()
            yield from stepper.commit(torch.from_numpy(before.last.argmax).long())
            usage.seconds += time.perf_counter() - clock
        before = yield from denoise_block(schedule, block, usage, edits)
        if before is None:
            yield finished("cancelled", done, usage)
            return
        tokens, text_length = cut_at_eos(before.last.argmax, run.config)
        done.append(tokens[:text_length])
        written += text_length
        yield before.committed(block, tokens, text_length)
        if text_length < length:
            reason = "eos"
            break
    schedule.close()
    yield finished(reason, done, usage)


def denoise_block(
    schedule: ForkSchedule, block: int, usage: Usage, edits: Edits = ()
) -> Decoding[FinishedCanvas | None]:
    """Denoises a canvas behind the cache's text, from noise to its last step; returns None if it was cancelled."""
    sampler = schedule.stepper.sampler
    canvas = sampler.first_canvas(block, edits)
    yield CanvasStarted(block, to_host(canvas), sampler.pinned_mask(block))
    return (yield from take_steps(schedule, block, canvas, 0, usage))


def take_steps(
    schedule: ForkSchedule, block: int, canvas: Tensor, before: int, usage: Usage
) -> Decoding[FinishedCanvas | None]:
    """Denoises a canvas (C,) to its last step, ``before`` steps into its block; returns None if it was cancelled."""
    stepper, watch = schedule.stepper, StallWatch(schedule.config.stall_steps)
    yield from stepper.begin(block, canvas)
    for index in itertools.count():
        if schedule.run.is_cancelled:
            return None
        clock = time.perf_counter()
        if schedule.due(block, index):
            schedule.change(block, index)
            watch = StallWatch(schedule.config.stall_steps)
        goes_on = schedule.due(block, index + 1)  # a change keeps a canvas from ending before it is made
        is_last = index + 1 >= schedule.config.max_denoising_steps
        step = yield from stepper.step(index, ahead=not (goes_on or is_last or watch.may_stall))
        watch = watch.after(float(step.entropy.mean()))
        seconds = time.perf_counter() - clock
        usage.steps, usage.seconds = usage.steps + 1, usage.seconds + seconds
        yield StepFinished(
            block,
            before + index,
            schedule.config.temperature(index),
            step.argmax,
            step.candidates,
            step.entropy,
            step.accepted,
            step.next_canvas,
            seconds,
            *step.top,
        )
        if not goes_on and (step.converged or is_last or watch.has_stalled):
            return FinishedCanvas(step, before + index + 1, watch.has_stalled and not is_last)
    raise AssertionError


def most_blocks(run: Run) -> int:
    """Returns the largest number of blocks that a run of equal ones may have.

    Raises:
        SafelightError: none fits behind the prompt.
    """
    length = run.canvas_length
    return min(_rounded_up(run.config, length) // length, room_for_blocks(run, length))


def _rounded_up(config: GenerationConfig, length: int) -> int:
    """Returns the most new tokens of a run, rounded up to whole canvases of ``length``."""
    return -(-config.max_new_tokens // length) * length


def room_for_blocks(run: Run, length: int) -> int:
    """Returns how many canvases of ``length`` tokens fit behind the prompt, 1 or more.

    Raises:
        SafelightError: none fits.
    """
    prompt, most = len(run.prompt), run.model.config.max_position_embeddings
    if most - prompt < length:
        raise SafelightError(
            f"the prompt is {prompt} tokens long and the model has {most} "
            f"positions, {length} of which a canvas needs. Shorten the prompt"
        )
    return (most - prompt) // length


def cut_at_eos(tokens: Tokens, config: GenerationConfig) -> tuple[Tokens, int]:
    """Returns the canvas with padding behind its first end token, and the number of tokens before that."""
    ends = np.flatnonzero(np.isin(tokens, config.eos_token_ids))
    if not len(ends):
        return tokens, len(tokens)
    first = int(ends[0])
    tokens = tokens.copy()
    tokens[first + 1 :] = config.pad_token_id
    return tokens, first


def finished(
    reason: Literal["eos", "length", "cancelled"], done: Sequence[Tokens], usage: Usage, why: str = ""
) -> GenerationFinished:
    """Returns the last event of a run; ``done`` are the texts of its blocks."""
    tokens = np.concatenate(done) if done else np.empty(0, dtype=np.int32)
    return GenerationFinished(reason, tokens, len(done), usage.steps, usage.seconds, why)

"""Block diffusion: denoises a canvas until it converges, commits its argmax, and continues with the next.

A stepper takes the steps; see ``plain_stepper``. A run may begin behind known blocks, and may be changed between its
steps; see ``fork_schedule``. The beginning of a canvas may be committed before the rest; see ``heads``.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.fork_schedule import ForkSchedule
from engine.decoding.heads import HeadReader
from engine.decoding.plain_stepper import Step
from engine.decoding.prefill import prefill, reuse_prefix
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.decoding.sampler import Edits, to_host
from engine.decoding.stalling import StallWatch
from engine.errors import SafelightError
from engine.events import (
    BlockEnd,
    CanvasCommitted,
    CanvasStarted,
    Following,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
    TryEnded,
)
from engine.types import Tokens


@dataclass(frozen=True)
class CommittedBlocks:
    """The known blocks of a run, which are not run again: their argmax canvases (C,) and their numbers of steps."""

    rows: tuple[Tensor, ...] = ()
    steps: tuple[int, ...] = ()


@dataclass
class Usage:
    """The steps and seconds that a run has taken."""

    steps: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class FinishedCanvas:
    last: Step
    steps: int
    unchanged: NDArray[np.int32]  # (C,) steps in a row before the last one with the same argmax
    has_stalled: bool = False
    head: int | None = None  # tokens that became text, and are in the cache; None: the whole canvas does

    @property
    def has_settled(self) -> bool:
        """True if nothing more is to be done for the canvas."""
        return self.last.converged or self.head is not None

    @property
    def reason(self) -> BlockEnd:
        if self.head is not None:
            return "head"
        return "converged" if self.last.converged else "stalled" if self.has_stalled else "step_cap"

    def text(self, config: GenerationConfig) -> tuple[Tokens, int]:
        """Returns the canvas with padding behind its text, and the number of tokens of that."""
        tokens, length = cut_at_eos(self.last.argmax, config)
        if self.head is None or length < self.head:
            return tokens, length
        tokens = tokens.copy()
        tokens[self.head :] = config.pad_token_id
        return tokens, self.head

    def committed(self, block: int, tokens: Tokens, text_length: int) -> CanvasCommitted:
        """Returns the event of the canvas, with its tokens as the text has them."""
        return CanvasCommitted(block, tokens, text_length, self.steps, self.reason)


NO_BLOCKS = CommittedBlocks()


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def block_diffusion(run: Run, known: CommittedBlocks = NO_BLOCKS) -> Decoding[None]:
    """Generates text after the prompt. A cancelled run ends within one step.

    Denoising reads only the cache, so text that the cache holds completely is not read again.

    Args:
        known: the first blocks of the run.
    """
    started, prompt, cache = time.perf_counter(), run.prompt, run.cache
    schedule, room = ForkSchedule(run), room_for_blocks(run, run.canvas_length) * run.canvas_length
    stepper, written = schedule.stepper, 0
    done, usage = [to_host(row) for row in known.rows], Usage(sum(known.steps))
    for block, (row, steps) in enumerate(zip(known.rows, known.steps, strict=True)):
        schedule.skip_block(block, written, row, steps)
        written += len(row)
    held = known.rows[:-1] if stepper.commits_with_step else known.rows  # the next step reads the last one
    kept = reuse_prefix(cache, [prompt, *held])
    ahead = run.canvas_length if run.config.head_steps else 0
    cache.reserve(len(prompt) + min(room, _rounded_up(schedule.config, run.canvas_length) + ahead))
    is_read = yield from prefill([prompt], cache, run.cancel)
    for end, row in zip(itertools.accumulate(map(len, known.rows)), known.rows, strict=True):
        is_read = is_read and not run.is_cancelled
        if is_read and end > kept - len(prompt):
            yield from stepper.commit(row)
    if not is_read:
        yield finished("cancelled", done, usage)
        return
    yield PrefillFinished(len(prompt), min(kept, len(prompt)), time.perf_counter() - started)

    before: FinishedCanvas | None = None
    heads: HeadReader | None = None
    reason: Literal["eos", "length"] = "length"
    for block in itertools.count(len(done)):
        edits = schedule.open(block, written)
        length, most = stepper.sampler.length, schedule.config.max_new_tokens
        if written >= most or written + length > room:
            break
        if before is not None and before.head is None:
            clock = time.perf_counter()
            yield from stepper.commit(torch.from_numpy(before.last.argmax).long())
            usage.seconds += time.perf_counter() - clock
            before = None
        if schedule.config.head_steps and written + length < most and not stepper.sampler.pinned_mask(block).any():
            newest, refused = int(done[-1][-1] if done else prompt[-1]), () if heads is None else heads.refused
            heads = HeadReader(cache, newest, room - written - length, refused if before is not None else ())
        else:
            heads = None
        canvas = yield from denoise_block(schedule, block, usage, edits, heads=heads, before=before)
        if canvas is None:
            yield finished("cancelled", done, usage)
            return
        tokens, text_length = canvas.text(run.config)
        done.append(tokens[:text_length])
        written += text_length
        yield canvas.committed(block, tokens, text_length)
        if text_length < (length if canvas.head is None else canvas.head):
            reason = "eos"
            break
        before = canvas
    schedule.close()
    yield finished(reason, done, usage)


def denoise_block(
    schedule: ForkSchedule,
    block: int,
    usage: Usage,
    edits: Edits = (),
    *,
    rescues: bool = False,
    heads: HeadReader | None = None,
    before: FinishedCanvas | None = None,
) -> Decoding[FinishedCanvas | None]:
    """Denoises a canvas behind the cache's text, from noise to its last step.

    A canvas that stalls may begin again from other noise. Steps are left for it if there are more than a stall takes.

    Args:
        rescues: the caller rescues a canvas that does not converge.
        heads: reads the beginning of the canvas early; then the canvas is not denoised to its end.
        before: the canvas of which only a head is text; this one begins with its rest.

    Returns:
        The try that converged, else that with the lowest mean entropy at its end, with the steps of all; None if the
        run was cancelled.
    """
    sampler = schedule.stepper.sampler
    canvas = sampler.first_canvas(block, edits)
    if before is not None:
        rest = schedule.stepper.canvas[before.head :]
        canvas[: len(rest)] = rest
    yield CanvasStarted(block, to_host(canvas), sampler.pinned_mask(block))
    best = last = yield from take_steps(schedule, block, canvas, 0, usage, heads=heads, moved=before)
    number = surest = 0
    while last is not None and best is not None and not last.has_settled and (number or last.has_stalled):
        config, sampler = schedule.config, schedule.stepper.sampler
        has_room = config.max_denoising_steps - last.steps > config.stall_steps
        is_again = last.has_stalled and number < config.second_tries and has_room
        canvas = sampler.amended(sampler.noise(), block) if is_again else torch.from_numpy(best.last.argmax)
        then: Following = "again" if is_again else "rescued" if rescues else "taken"
        yield TryEnded(block, last.steps - 1, number, surest, last.has_stalled, then, to_host(canvas))
        if not is_again:
            break
        last = yield from take_steps(schedule, block, canvas, last.steps, usage, used=last.steps, heads=heads)
        number += 1
        if last is not None and (last.has_settled or last.last.entropy.mean() < best.last.entropy.mean()):
            best, surest = last, number
    if last is None or best is None:
        return None
    return dataclasses.replace(best, steps=last.steps, has_stalled=last.has_stalled)


def take_steps(
    schedule: ForkSchedule,
    block: int,
    canvas: Tensor,
    before: int,
    usage: Usage,
    used: int = 0,
    heads: HeadReader | None = None,
    moved: FinishedCanvas | None = None,
) -> Decoding[FinishedCanvas | None]:
    """Denoises a canvas (C,) to its last step, after ``before`` steps of its block; returns None if it was cancelled.

    Args:
        used: steps of these that count against the most that the settings allow.
        heads: as for ``denoise_block``.
        moved: the canvas whose rest this one begins with.
    """
    stepper, watch = schedule.stepper, StallWatch.under(schedule.config)
    unchanged, previous = np.zeros(len(canvas), dtype=np.int32), np.full(len(canvas), -1, dtype=np.int32)
    if moved is not None and moved.head is not None:
        rest = len(canvas) - moved.head
        unchanged[:rest], previous[:rest] = moved.unchanged[moved.head :], moved.last.argmax[moved.head :]
    yield from stepper.begin(block, canvas, None if moved is None else moved.head)
    for index in itertools.count():
        if schedule.run.is_cancelled:
            return None
        clock = time.perf_counter()
        if schedule.due(block, index):
            schedule.change(block, index)
            watch = StallWatch.under(schedule.config)
        goes_on = schedule.due(block, index + 1)  # a change keeps a canvas from ending before it is made
        is_last = index + 1 >= schedule.config.max_denoising_steps - used
        step = yield from stepper.step(index, ahead=not (goes_on or is_last or watch.may_stall or heads))
        watch = watch.after(float(step.entropy.mean()))
        unchanged = np.where(step.argmax == previous, unchanged + 1, 0)
        previous = step.argmax
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
            return FinishedCanvas(step, before + index + 1, unchanged, watch.has_stalled and not is_last)
        if heads is not None:
            clock = time.perf_counter()
            head = yield from heads.read(step.argmax, unchanged, schedule.config)
            usage.seconds += time.perf_counter() - clock
            if head:
                return FinishedCanvas(step, before + index + 1, unchanged, head=head)
            if head is not None:
                stepper.change(stepper.sampler, ())  # the places of the canvas in the cache may have changed
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

"""Block diffusion: denoises a canvas until it converges, commits its argmax, and continues with the next.

A stepper takes the steps; see ``plain_stepper``. A run may begin behind known blocks, and may be changed between its
steps; see ``fork_schedule``.
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

    @property
    def reason(self) -> BlockEnd:
        return "converged" if self.last.converged else "stalled" if self.has_stalled else "step_cap"

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
    length, room = run.canvas_length, room_for_blocks(run, run.canvas_length)
    schedule = ForkSchedule(run)
    stepper = schedule.stepper
    for block, steps in enumerate(known.steps):
        schedule.skip_block(block, steps)
    done, usage = [to_host(row) for row in known.rows], Usage(sum(known.steps))
    held = known.rows[:-1] if stepper.commits_with_step else known.rows  # the next step reads the last one
    kept = reuse_prefix(cache, [prompt, *held])
    cache.reserve(len(prompt) + _blocks(schedule.config, length, room) * length)
    is_read = yield from prefill([prompt], cache, run.cancel)
    for row in known.rows[max(0, kept - len(prompt)) // length :]:
        is_read = is_read and not run.is_cancelled
        if is_read:
            yield from stepper.commit(row)
    if not is_read:
        yield finished("cancelled", done, usage)
        return
    yield PrefillFinished(len(prompt), min(kept, len(prompt)), time.perf_counter() - started)

    last: Tensor | None = None
    for block in itertools.count(len(done)):
        edits = schedule.open(block)
        if block >= _blocks(schedule.config, length, room):
            break
        if last is not None:
            clock = time.perf_counter()
            yield from stepper.commit(last)
            usage.seconds += time.perf_counter() - clock
        canvas = yield from denoise_block(schedule, block, usage, edits)
        if canvas is None:
            yield finished("cancelled", done, usage)
            return
        tokens, text_length = cut_at_eos(canvas.last.argmax, run.config)
        done.append(tokens[:text_length])
        last = torch.from_numpy(canvas.last.argmax).long()
        yield canvas.committed(block, tokens, text_length)
        if text_length < length:
            break
    schedule.close()
    yield finished("length" if not done or len(done[-1]) == length else "eos", done, usage)


def denoise_block(
    schedule: ForkSchedule, block: int, usage: Usage, edits: Edits = (), *, rescues: bool = False
) -> Decoding[FinishedCanvas | None]:
    """Denoises a canvas behind the cache's text, from noise to its last step.

    A canvas that stalls may begin again from other noise. Steps are left for it if there are more than a stall takes.

    Args:
        rescues: the caller rescues a canvas that does not converge.

    Returns:
        The try that converged, else that with the lowest mean entropy at its end, with the steps of all; None if the
        run was cancelled.
    """
    sampler = schedule.stepper.sampler
    canvas = sampler.first_canvas(block, edits)
    yield CanvasStarted(block, to_host(canvas), sampler.pinned_mask(block))
    best = last = yield from take_steps(schedule, block, canvas, 0, usage)
    number = surest = 0
    while last is not None and best is not None and not last.last.converged and (number or last.has_stalled):
        config, sampler = schedule.config, schedule.stepper.sampler
        has_room = config.max_denoising_steps - last.steps > config.stall_steps
        is_again = last.has_stalled and number < config.second_tries and has_room
        canvas = sampler.amended(sampler.noise(), block) if is_again else torch.from_numpy(best.last.argmax)
        then: Following = "again" if is_again else "rescued" if rescues else "taken"
        yield TryEnded(block, last.steps - 1, number, surest, last.has_stalled, then, to_host(canvas))
        if not is_again:
            break
        last = yield from take_steps(schedule, block, canvas, last.steps, usage, used=last.steps)
        number += 1
        if last is not None and (last.last.converged or last.last.entropy.mean() < best.last.entropy.mean()):
            best, surest = last, number
    if last is None or best is None:
        return None
    return dataclasses.replace(best, steps=last.steps, has_stalled=last.has_stalled)


def take_steps(
    schedule: ForkSchedule, block: int, canvas: Tensor, before: int, usage: Usage, used: int = 0
) -> Decoding[FinishedCanvas | None]:
    """Denoises a canvas (C,) to its last step, after ``before`` steps of its block; returns None if it was cancelled.

    Args:
        used: steps of these that count against the most that the settings allow.
    """
    stepper, watch = schedule.stepper, StallWatch.under(schedule.config)
    unchanged, previous = np.zeros(len(canvas), dtype=np.int32), None
    yield from stepper.begin(block, canvas)
    for index in itertools.count():
        if schedule.run.is_cancelled:
            return None
        clock = time.perf_counter()
        if schedule.due(block, index):
            schedule.change(block, index)
            watch = StallWatch.under(schedule.config)
        goes_on = schedule.due(block, index + 1)  # a change keeps a canvas from ending before it is made
        is_last = index + 1 >= schedule.config.max_denoising_steps - used
        step = yield from stepper.step(index, ahead=not (goes_on or is_last or watch.may_stall))
        watch = watch.after(float(step.entropy.mean()))
        if previous is not None:
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
    raise AssertionError


def _blocks(config: GenerationConfig, length: int, room: int) -> int:
    return min(-(-config.max_new_tokens // length), room)


def most_blocks(run: Run) -> int:
    """Returns the largest number of blocks that a run may have.

    Raises:
        SafelightError: none fits behind the prompt.
    """
    return _blocks(run.config, run.canvas_length, room_for_blocks(run, run.canvas_length))


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

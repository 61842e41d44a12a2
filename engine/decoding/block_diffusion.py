"""Block diffusion: denoise a canvas until it converges, commit its argmax, go on with the next.

How a step is taken is a stepper's business; see ``steppers``. A run may begin behind blocks that are known, and change
on its way; see ``course``.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.development import Tally, cut_at_eos, develop, finished, room_for_blocks
from engine.decoding.fork_schedule import Course
from engine.decoding.protocols import Denoiser, keep_texts, read
from engine.decoding.sampler import Sampler, to_host
from engine.decoding.steppers import stepper_for
from engine.events import Event, PrefillFinished
from engine.forks import Fork
from engine.layers.kv_cache import KVCache
from engine.types import Cancel


@dataclass(frozen=True)
class Past:
    """The blocks of a run that are known and not run again: their argmax canvases (C,), and the steps they took."""

    rows: tuple[Tensor, ...] = ()
    steps: tuple[int, ...] = ()


NOTHING = Past()


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def block_diffusion(
    model: Denoiser,
    prompt: Tensor,
    config: GenerationConfig,
    seed: int,
    cancel: Cancel | None,
    cache: KVCache,
    past: Past = NOTHING,
    changes: Sequence[Fork] = (),
) -> Iterator[Event]:
    """Generate text after ``prompt`` (T,). Cancelling takes effect within one step.

    Denoising reads nothing but the cache, so text that is wholly in it is not read again.
    """
    sampler = Sampler.of(model.config, config, model.device, seed)
    length, room = sampler.length, room_for_blocks(model.config, len(prompt), sampler.length)
    started = time.perf_counter()
    stepper = stepper_for(model, cache, sampler)
    course = Course(stepper, changes)
    for block, steps in enumerate(past.steps):
        course.pass_by(block, steps)
    done, tally = [to_host(row) for row in past.rows], Tally(sum(past.steps))
    held = past.rows[:-1] if stepper.commits_with_step else past.rows  # what a step has read is read so again
    kept = keep_texts(cache, [prompt, *held])
    cache.reserve(len(prompt) + _blocks(course.config, length, room) * length)
    is_read = read(model, [prompt], cache, cancel)
    for known in past.rows[max(0, kept - len(prompt)) // length :]:
        is_read = is_read and not (cancel is not None and cancel.is_set())
        if is_read:
            stepper.commit(known)
    if not is_read:
        yield finished("cancelled", done, tally)
        return
    yield PrefillFinished(len(prompt), min(kept, len(prompt)), time.perf_counter() - started)

    row: Tensor | None = None
    for block in itertools.count(len(done)):
        edits = course.open(block)
        if block >= _blocks(course.config, length, room):
            break
        if row is not None:
            clock = time.perf_counter()
            stepper.commit(row)
            tally.seconds += time.perf_counter() - clock
        developed = yield from develop(course, block, edits, cancel, tally)
        if developed is None:
            yield finished("cancelled", done, tally)
            return
        tokens, text_length = cut_at_eos(developed.last.argmax, config)
        done.append(tokens[:text_length])
        row = torch.from_numpy(developed.last.argmax).long()
        yield developed.committed(block, tokens, text_length)
        if text_length < length:
            break
    course.close()
    yield finished("length" if not done or len(done[-1]) == length else "eos", done, tally)


def _blocks(config: GenerationConfig, length: int, room: int) -> int:
    """How many blocks a run comes to at most."""
    return min(-(-config.max_new_tokens // length), room)

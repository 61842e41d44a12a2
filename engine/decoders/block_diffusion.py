"""Block diffusion: denoise a canvas until it converges, commit its argmax, go on with the next.

How a step is taken is a stepper's business; see ``steppers``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from engine.cache import KVCache
from engine.config import GenerationConfig
from engine.decoders.base import Cancel, Denoiser, commit
from engine.decoders.steppers import Sampler, stepper_for
from engine.errors import SafelightError
from engine.events import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
    Tokens,
)


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def block_diffusion(
    model: Denoiser, prompt: Tensor, config: GenerationConfig, seed: int, cancel: Cancel | None, cache: KVCache
) -> Iterator[Event]:
    """Generate text after ``prompt`` (T,). Cancelling takes effect within one step.

    Denoising reads nothing but the cache, so a prompt that is wholly in it is not read again.
    """
    sampler = Sampler.of(model.config, config, model.device, seed)
    room = model.config.max_position_embeddings - prompt.shape[0]
    if room < sampler.length:
        raise SafelightError(
            f"the prompt is {prompt.shape[0]} tokens long and the model has {model.config.max_position_embeddings} "
            f"positions, {sampler.length} of which a canvas needs. Shorten the prompt"
        )
    blocks = min(-(-config.max_new_tokens // sampler.length), room // sampler.length)
    started = time.perf_counter()
    reused = cache.keep_prefix(prompt.tolist())
    cache.reserve(prompt.shape[0] + blocks * sampler.length)
    if not commit(model, prompt[reused:], cache, cancel):
        yield _finished("cancelled", [], 0, 0.0)
        return
    yield PrefillFinished(prompt.shape[0], reused, time.perf_counter() - started)

    done: list[Tokens] = []
    steps, reason, spent = 0, "length", 0.0
    stepper = stepper_for(model, cache, sampler)
    for block in range(blocks):
        canvas = sampler.first_canvas(block)
        yield CanvasStarted(block, canvas.to("cpu", torch.int32).numpy(), sampler.pinned_mask(block))
        stepper.begin(block, canvas)
        for index in range(config.max_denoising_steps):
            if cancel is not None and cancel.is_set():
                yield _finished("cancelled", done, steps, spent)
                return
            clock = time.perf_counter()
            step = stepper.step(index)
            seconds = time.perf_counter() - clock
            steps, spent = steps + 1, spent + seconds
            yield StepFinished(
                block,
                index,
                config.temperature(index),
                step.argmax,
                step.candidates,
                step.entropy,
                step.accepted,
                step.next_canvas,
                seconds,
                *step.top,
            )
            if step.converged:
                break
        tokens, text_length = _cut_at_eos(step.argmax, config)
        done.append(tokens[:text_length])
        yield CanvasCommitted(block, tokens, text_length, index + 1, "converged" if step.converged else "step_cap")
        if text_length < len(tokens):
            reason = "eos"
            break
        if block + 1 < blocks:
            clock = time.perf_counter()
            stepper.commit(torch.from_numpy(step.argmax).long())
            spent += time.perf_counter() - clock
    yield _finished(reason, done, steps, spent)


def _cut_at_eos(tokens: Tokens, config: GenerationConfig) -> tuple[Tokens, int]:
    """The canvas with everything after its first end token padded, and the number of tokens before that."""
    ends = np.flatnonzero(np.isin(tokens, config.eos_token_ids))
    if not len(ends):
        return tokens, len(tokens)
    first = int(ends[0])
    tokens = tokens.copy()
    tokens[first + 1 :] = config.pad_token_id
    return tokens, first


def _finished(reason: str, done: list[Tokens], steps: int, seconds: float) -> GenerationFinished:
    tokens = np.concatenate(done) if done else np.empty(0, dtype=np.int32)
    return GenerationFinished(reason, tokens, len(done), steps, seconds)  # type: ignore[arg-type]

"""Structured output: an answer that fits a format, by a model that does not know the format.

A canvas is denoised freely until it converges. Then it is read from the left under the format. The tokens that fit are
pinned, and behind them those that the format forces, or the likeliest allowed one. The rest is denoised again behind
the longer prefix, from its current tokens: a canvas that fits except for one token settles within few steps. Each round
pins at least one token, so that the answer reaches its end, or its last block.

The choice is made from one pass over the canvas with noise in place of the token that does not fit. The last step's own
prediction would favour that token, since it was on the canvas.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from engine.decoding.block_diffusion import FinishedCanvas, Usage, finished, most_blocks, take_steps
from engine.decoding.fork_schedule import ForkSchedule
from engine.decoding.prefill import read_prompt
from engine.decoding.protocols import Decoding, Passes
from engine.decoding.run import Run, allowed_next, take_chosen, take_forced
from engine.decoding.sampler import to_host
from engine.events import CanvasCommitted, CanvasStarted, PrefixPinned
from engine.types import Tokens

if TYPE_CHECKING:
    from engine.text.formatted_answer import FormattedAnswer

MAX_BLOCK_STEPS = 4_000  # denoising steps of a block; after them each round takes one
LATER = 4  # a later round takes at most this part of the steps: most of its canvas is written


@torch.inference_mode()
def structured(run: Run) -> Decoding[None]:
    """Generates text after the prompt that fits the run's answer, which is written to its end.

    The run ends with "eos" if the answer is complete. It ends with "length" if the answer was cut, or can no longer be
    held to its format; then the last event says why.
    """
    assert run.answer is not None, "the run has no format"
    answer, length = run.answer, run.canvas_length
    parts, usage = _Blocks(run, answer), Usage()
    blocks = most_blocks(run)
    if not (yield from read_prompt(run, blocks * length)):
        yield finished("cancelled", [], usage)
        return

    done = list[Tokens]()
    for block in range(blocks):
        if block:
            clock = time.perf_counter()
            yield from parts.stepper.commit(torch.from_numpy(done[-1]).long())
            usage.seconds += time.perf_counter() - clock
        written = sum(map(len, done))
        committed = yield from parts.write(block, usage, min(length, run.config.max_new_tokens - written))
        if committed is None:
            yield finished("cancelled", done, usage)
            return
        done.append(committed.tokens[: committed.text_length])
        yield committed
        if answer.has_ended or answer.must_end or answer.failure:
            break
    yield finished("eos" if answer.has_ended or answer.must_end else "length", done, usage, answer.failure)


class _Blocks:
    """Writes the blocks of a run, one after the other."""

    def __init__(self, run: Run, answer: FormattedAnswer) -> None:
        self.schedule, self.config, self.answer = ForkSchedule(run), run.config, answer
        self.stepper = self.schedule.stepper

    def write(self, block: int, usage: Usage, most: int) -> Decoding[CanvasCommitted | None]:
        """Writes a block, of which ``most`` tokens are wanted; returns None where it was cancelled."""
        stepper, answer = self.stepper, self.answer
        stepper.adopt(stepper.sampler.changed(self.config, block))
        canvas = stepper.sampler.first_canvas(block)
        length = len(canvas)
        yield CanvasStarted(block, to_host(canvas), stepper.sampler.pinned_mask(block))
        held, written = take_forced(answer, length), 0  # the prefix; how many of its newest tokens the model wrote
        is_new, steps, rounds = bool(held), 0, 0
        last: FinishedCanvas | None = None
        while True:
            canvas = self._pin(block, canvas, held, steps, is_whole=self._is_whole(held, most))
            if is_new:
                yield PrefixPinned(block, steps, rounds, to_host(canvas), len(held), written)
                rounds += 1
            is_whole = self._is_whole(held, most)
            if is_whole and last is not None:
                break
            last = yield from take_steps(self.schedule, block, canvas, steps, usage)
            if last is None:
                return None
            steps, argmax = last.steps, last.last.argmax
            if is_whole:
                break
            written = answer.take(argmax[len(held) :].tolist())
            held = argmax[: len(held) + written].tolist()
            if self._is_whole(held, most):
                break
            chosen = take_forced(answer, length - len(held)) or (yield from self._choice(argmax, len(held)))
            held, is_new = held + chosen, True
            canvas = torch.from_numpy(argmax).long().to(canvas.device)
        return self._committed(block, held, length, last)

    def _is_whole(self, held: Sequence[int], most: int) -> bool:
        """True if nothing more is written on a canvas whose prefix is ``held``."""
        return self.answer.has_ended or bool(self.answer.failure) or len(held) >= most

    def _choice(self, argmax: Tokens, position: int) -> Passes[list[int]]:
        """Takes the likeliest allowed token at a position of a canvas (C,); returns none if the answer has failed."""
        stepper = self.stepper
        canvas = torch.from_numpy(argmax).long().to(stepper.sampler.generator.device)
        canvas[position] = stepper.sampler.noise()[position]
        logits = yield from stepper.predict(canvas, position)
        ends = (self.config.pad_token_id, *self.config.eos_token_ids)
        mask = allowed_next(self.answer, stepper.sampler.forbidden, int(argmax[position]), ends)
        if self.answer.failure:
            return []
        token = int(logits.masked_fill(torch.from_numpy(~mask).to(logits.device), -torch.inf).argmax())
        return take_chosen(self.answer, token)

    def _pin(self, block: int, canvas: Tensor, held: list[int], steps: int, *, is_whole: bool) -> Tensor:
        """Pins a prefix, and sets how many steps may be taken next; returns the canvas (C,) with it."""
        most = self.config.max_denoising_steps if not steps else max(1, self.config.max_denoising_steps // LATER)
        most = 1 if is_whole else max(1, min(most, MAX_BLOCK_STEPS - steps))
        settings = self.config.replace(pinned=tuple(enumerate(held)), max_denoising_steps=most)
        self.stepper.adopt(self.stepper.sampler.changed(settings, block))
        return self.stepper.sampler.amended(canvas, block)

    def _committed(self, block: int, held: list[int], length: int, last: FinishedCanvas) -> CanvasCommitted:
        """Returns the event of a block whose text is ``held``, with padding behind it."""
        tokens = np.full(length, self.config.pad_token_id, dtype=np.int32)
        tokens[: len(held)] = held
        return last.committed(block, tokens, len(held) - self.answer.has_ended)

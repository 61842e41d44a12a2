"""Autoregressive decoding: one token a pass, drawn from what the network predicts behind the text so far.

Every network can do it: a causal one by itself, DiffusionGemma in the mode in which it reads text. Pinned tokens of the
first canvas are written as they are. Those behind a drawn token are read in the same pass as it.

A format is a mask on the next token: the distribution is cut to the tokens that the format allows. Tokens that the
format forces are written without a choice, and read in the pass of the next one.

``mixed`` is two decoders in one run, on the same weights: thoughts token by token, all else by block diffusion. The
decoder of a block is that of the place where it begins. Thoughts are found by the tokens that open and close them; the
decoder changes at the next edge between blocks. The first block counts as a thought if the prompt asks for one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from engine.decoding.block_diffusion import Usage, cut_at_eos, denoise_block, most_blocks
from engine.decoding.fork_schedule import ForkSchedule
from engine.decoding.prefill import commit, read_prompt
from engine.decoding.protocols import Decode, Decoding
from engine.decoding.run import Run
from engine.decoding.thoughts import ThoughtBudget, ThoughtTokens
from engine.decoding.token_sampler import TokenSampler
from engine.decoding.written_blocks import blocks_of, room_behind
from engine.events import Event

Reason: TypeAlias = Literal["eos", "length", "cancelled"]


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def autoregressive(run: Run) -> Decoding[None]:
    """Generates text after the prompt; it fits the run's answer, if there is one.

    A cancelled run ends within one pass. The prompt's last token is read in the first pass that predicts. At the end
    the cache holds the prompt and all tokens but the last. Under a format the run ends with "eos" if the answer is
    complete. Else it ends with "length": the answer was cut, or cannot be held to its format; the last event says why.
    """
    limit = min(run.config.max_new_tokens, room_behind(run))
    writer = Writer(run, run.prompt[-1:].tolist(), ThoughtBudget.from_run(run))
    if not (yield from read_prompt(run, limit, unread=1)):
        yield from writer.blocks.finish("cancelled", 0)
        return
    yield from writer.blocks.begin()
    reason = yield from writer.write(limit)
    why = "" if run.answer is None else run.answer.failure
    yield from writer.blocks.finish(reason or "length", writer.length, why)


class Writer:
    """Writes tokens one after the other behind the text in a run's cache.

    Args:
        pending: the newest tokens of the text, which the cache does not hold yet; at least one before ``write``.
        budget: of the text's first thought.

    Attributes:
        blocks: makes the events; its pinned tokens are written as they are.
    """

    def __init__(self, run: Run, pending: Sequence[int], budget: ThoughtBudget | None = None) -> None:
        self.run, self.cache, self.pending = run, run.cache, list(pending)
        self.sampler, self.blocks = TokenSampler.from_run(run), blocks_of(run, in_order=True)
        self.budget = budget or ThoughtBudget()
        self.length = 0  # generated tokens, without an end token
        self.has_ended = False  # by an end token

    def write(self, until: int) -> Decoding[Reason | None]:
        """Writes until the text has ``until`` generated tokens.

        Returns:
            Why the run ends before that; None where it does not.
        """
        self._follow(self.blocks.pinned, until)
        while not self.has_ended and self.length < until:
            if self.run.is_cancelled:
                return "cancelled"
            clock = time.perf_counter()
            early = len(self.pending) - self.cache.piece  # more than fits one pass
            if early > 0:
                yield from commit(torch.tensor(self.pending[:early]), self.cache)
                del self.pending[:early]
            wanted = Decode(torch.tensor(self.pending), self.cache, len(self.pending), len(self.pending) - 1)
            yield wanted
            self.cache.record_ids(self.pending)
            self.pending = []
            logits, answer = self.sampler.allowed(wanted.take()), self.run.answer
            if answer is None:
                yield from self.put(self.budget.ending(self.sampler.draw(logits)), logits, until, clock)
                continue
            fitting = self.sampler.fitting(answer, logits, until - self.length, self.budget)
            yield from self.put(fitting, logits, until, clock)
            if answer.must_end or answer.failure:
                return None if answer.failure else "eos"
        return "eos" if self.has_ended else None

    def take(self, tokens: Sequence[int]) -> None:
        """Adds tokens to the text, up to and with an end token; the others are dropped."""
        for token in tokens:
            if self.has_ended:
                break
            self.sampler.see((token,))
            self.pending.append(token)
            self.budget.add(token)
            self.has_ended = token in self.blocks.ends
            self.length += not self.has_ended

    def put(self, tokens: Tensor, logits: Tensor, until: int, clock: float) -> Iterator[Event]:
        """Adds tokens (R,) that one pass has written, the first P of them by its logits (P, V).

        Under a format R is above P where it forces further tokens, and below P where the answer has failed.

        Args:
            clock: when the pass began, in seconds.
        """
        given = dict(enumerate(tokens.tolist(), self.length))
        count = min(len(given), len(logits))
        predicted = dict(zip(given, self.sampler.predicted(logits[:count], tokens[:count]), strict=False))
        self.take(tokens.tolist())
        self._follow(self.blocks.pinned, until)
        yield from self.blocks.step(
            given,
            {place: row for place, row in predicted.items() if place not in self.blocks.pinned},
            time.perf_counter() - clock,
            self.sampler.config.sampling_temperature,
        )

    def _follow(self, pinned: Mapping[int, int], until: int) -> None:
        """Adds the pinned tokens that come next."""
        while not self.has_ended and self.length < until and self.length in pinned:
            self.take([pinned[self.length]])


@torch.inference_mode()
def mixed(run: Run, thoughts: ThoughtTokens | None = None) -> Decoding[None]:
    """Generates text after the prompt.

    If no block is written token by token, the run is that of block diffusion, bit for bit. Both decoders use ``seed``
    for their own random streams. A block that is denoised has all its positions; another ends with ``max_new_tokens``.
    """
    schedule, writer, count = ForkSchedule(run), Writer(run, []), most_blocks(run)
    blocks, length = writer.blocks, writer.blocks.length
    thoughts = thoughts or ThoughtTokens.from_run(run)
    in_thought = thoughts.expected(run.prompt)
    unread = 1 if in_thought else 0
    if not (yield from read_prompt(run, count * length, unread)):
        yield from blocks.finish("cancelled", 0)
        return
    writer.pending = run.prompt[len(run.prompt) - unread :].tolist()
    reason: Reason | None = None
    for block in range(count):
        if in_thought:
            yield from blocks.begin()
            reason = yield from writer.write(min((block + 1) * length, run.config.max_new_tokens))
        else:
            reason = yield from _denoise(schedule, writer, block)
        if reason is not None:
            break
        in_thought = thoughts.is_open_behind(blocks.text[place] for place in range(writer.length))
    yield from blocks.finish(reason or "length", writer.length)


def _denoise(schedule: ForkSchedule, writer: Writer, block: int) -> Decoding[Reason | None]:
    """Denoises a block behind what was written; returns why the run ends with it, None if it goes on."""
    usage, clock, blocks = Usage(), time.perf_counter(), writer.blocks
    if writer.pending:
        ids = torch.tensor(writer.pending)
        is_canvas = len(ids) == blocks.length
        yield from schedule.stepper.commit(ids) if is_canvas else commit(ids, schedule.run.cache)
        writer.pending = []
    usage.seconds = time.perf_counter() - clock
    canvas = yield from denoise_block(schedule, block, usage)
    blocks.passes, blocks.seconds = blocks.passes + usage.steps, blocks.seconds + usage.seconds
    if canvas is None:
        return "cancelled"
    tokens, text_length = cut_at_eos(canvas.last.argmax, schedule.config)
    committed = canvas.committed(block, tokens, text_length)
    blocks.add(committed)
    writer.take(tokens.tolist())
    yield committed
    return "eos" if writer.has_ended else None

"""Infilling: writes spans of settled blocks anew, and keeps the text around them.

From noise, a marked block starts from noise in its spans, and all its other positions are pinned. The text before the
block is in the cache, so the block sees the changes there. The text behind it is not seen, and stays as it is.

Over masks, in models that read all of a text in both directions, the marked positions become masks and are filled as
``bidirectional`` fills a block. They see the text behind them, too.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.bidirectional import Filling
from engine.decoding.block_diffusion import Usage, cut_at_eos, denoise_block, finished, room_for_blocks
from engine.decoding.fork_schedule import ForkSchedule
from engine.decoding.masked_run import MaskedRun
from engine.decoding.prefill import prefill, reuse_prefix
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.decoding.sampler import to_host
from engine.decoding.sampling import SDAR
from engine.errors import SafelightError
from engine.events import BlockEnd, CanvasCommitted, PrefillFinished
from engine.forks import Mark
from engine.types import Tokens

Written: TypeAlias = tuple[Tokens, int, BlockEnd]  # a block's tokens (C,), its steps, and why it ended
Write: TypeAlias = Callable[[int, list[int], GenerationConfig], Decoding[Written | None]]
"""A block, its marked positions and the settings for it -> the block, written; None if that was cancelled."""


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def infilling(run: Run, rows: Sequence[Tensor], marks: Sequence[Mark]) -> Decoding[None]:
    """Writes marked spans of the settled blocks ``rows`` (C,) behind the prompt anew, from noise."""
    run = run.unpinned()
    prompt, cache, room = run.prompt, run.cache, room_for_blocks(run, 1)
    if sum(map(len, rows)) > room:
        raise SafelightError(f"the text takes {sum(map(len, rows))} tokens; only {room} fit after this prompt")
    text, usage, schedule = SettledText([to_host(row) for row in rows], run.config), Usage(), ForkSchedule(run)
    sampler, is_first = schedule.stepper.sampler, True

    def write(block: int, positions: list[int], settings: GenerationConfig) -> Decoding[Written | None]:
        nonlocal is_first
        started = time.perf_counter()
        before = [prompt, *(torch.from_numpy(row).long() for row in text.rows[:block])]
        reused = min(len(prompt), reuse_prefix(cache, before))
        cache.reserve(sum(map(len, before)) + len(rows[block]))
        if not (yield from prefill(before, cache, run.cancel)):
            return None
        if is_first:
            yield PrefillFinished(len(prompt), reused, time.perf_counter() - started)
        is_first = False
        held = tuple((at, token) for at, token in enumerate(text.rows[block].tolist()) if at not in positions)
        schedule.stepper.adopt(sampler.changed(settings.replace(pinned=held), block, len(rows[block])))
        canvas = yield from denoise_block(schedule, block, usage)
        return None if canvas is None else (canvas.last.argmax, canvas.steps, canvas.reason)

    yield from _written_anew(run, text, marks, usage, write)


@torch.inference_mode()
def masked_infilling(run: Run, rows: Sequence[Tensor], marks: Sequence[Mark]) -> Decoding[None]:
    """Writes marked spans of the settled blocks ``rows`` (C,) behind the prompt anew, from masks.

    Raises:
        SafelightError: as ``bidirectional``; a mark outside the settled text.
    """
    run = dataclasses.replace(run, config=run.config.replace(pinned=()))
    text, usage = SettledText([to_host(row) for row in rows], run.config), Usage()
    generator: torch.Generator | None = None
    run.cache.truncate(0)

    def write(block: int, positions: list[int], settings: GenerationConfig) -> Decoding[Written | None]:
        nonlocal generator
        if generator is None:
            yield PrefillFinished(len(run.prompt), 0, 0.0)
        span = MarkedSpan(dataclasses.replace(run, config=settings), text.rows, block, positions)
        span.sampler.generator = generator = generator or span.sampler.generator  # goes on with the draws
        yield from span.write_anew()
        usage.steps, usage.seconds = usage.steps + span.steps, usage.seconds + span.seconds
        return None if run.is_cancelled else (span.row, span.steps, "converged")

    yield from _written_anew(run, text, marks, usage, write)


def _written_anew(run: Run, text: SettledText, marks: Sequence[Mark], usage: Usage, write: Write) -> Decoding[None]:
    """Writes the marked spans of one block after the other.

    If the text goes on behind a block's last span, end tokens are banned in that block, so that the text stays whole.
    """
    for block, positions in marked_positions(marks, [len(row) for row in text.rows]).items():
        settings = run.config
        if text.goes_on_behind(block, positions[-1]):
            settings = settings.replace(banned_tokens=(*settings.banned_tokens, *settings.eos_token_ids))
        written = yield from write(block, positions, settings)
        if written is None:
            yield finished("cancelled", text.parts(), usage)
            return
        row, steps, reason = written
        text.settle(block, row, positions[-1])
        yield CanvasCommitted(block, *text.block(block), steps, reason)
    yield finished("eos" if text.has_ended else "length", text.parts(), usage)


class SettledText:
    """Settled blocks, and the text that they make."""

    def __init__(self, rows: list[Tokens], config: GenerationConfig) -> None:
        self.rows, self.config = rows, config
        self.last = len(rows) - 1
        self.end = settled_length(rows[-1], config)  # of the last block; behind it there is padding

    def goes_on_behind(self, block: int, position: int) -> bool:
        return block < self.last or position < self.end - 1

    def settle(self, block: int, row: Tokens, position: int) -> None:
        """Replaces a block that was written anew up to a position."""
        self.rows[block] = row
        if block == self.last:
            self.end = max(self.end, position + 1)

    def block(self, block: int) -> tuple[Tokens, int]:
        """Returns a block's tokens (C,), with padding behind the text's end, and the number of tokens before that."""
        row = self.rows[block]
        if block < self.last:
            return cut_at_eos(row, self.config)
        tokens, text_length = cut_at_eos(row[: self.end], self.config)
        return np.pad(tokens, (0, len(row) - len(tokens)), constant_values=self.config.pad_token_id), text_length

    def parts(self) -> list[Tokens]:
        """Returns the text of each block, up to the one with the end token."""
        parts = []
        for block in range(len(self.rows)):
            tokens, text_length = self.block(block)
            parts.append(tokens[:text_length])
            if text_length < len(tokens):
                break
        return parts

    @property
    def has_ended(self) -> bool:
        return any(np.isin(self.block(block)[0], self.config.eos_token_ids).any() for block in range(len(self.rows)))


def settled_length(row: Tokens, config: GenerationConfig) -> int:
    """Returns the number of a last block's tokens (C,) before its padding."""
    written = np.flatnonzero(row != config.pad_token_id)
    return int(written[-1]) + 1 if len(written) else 0


def marked_positions(marks: Sequence[Mark], lengths: Sequence[int]) -> dict[int, list[int]]:
    """Returns the marked positions, rising, of each block that has some.

    Args:
        lengths: of the settled blocks, in tokens.

    Raises:
        SafelightError: a mark is outside of them.
    """
    marked = dict[int, list[int]]()
    for block in sorted({mark.block for mark in marks}):
        own = {at for mark in marks if mark.block == block for at in range(mark.start, mark.stop)}
        if block >= len(lengths):
            raise SafelightError(f"block {block} is not finished; the text has {len(lengths)} blocks")
        if max(own) >= lengths[block]:
            raise SafelightError(f"the marked position {max(own)} is outside the canvas of {lengths[block]} tokens")
        marked[block] = sorted(own)
    return marked


class MarkedSpan(MaskedRun):
    """The marked positions of one settled block. All else of the text stands, so that it neither grows nor ends.

    Args:
        rows: all settled blocks (C,).
    """

    def __init__(self, run: Run, rows: Sequence[Tokens], block: int, positions: Sequence[int]) -> None:
        super().__init__(run, order=SDAR)
        text = np.concatenate(rows)
        self.places = range(block * self.size, (block + 1) * self.size)
        self.limit = max(
            len(text) - len(rows[-1]) + settled_length(rows[-1], run.config), self.places[positions[-1]] + 1
        )
        masked = {self.places[at] for at in positions}
        self._blocks.text = {place: token for place, token in enumerate(text.tolist()) if place not in masked}
        self._blocks.pinned = dict(self._blocks.text)
        self._blocks.skip_to(block)

    def write_anew(self) -> Decoding[None]:
        """Fills the masks; a cancelled run leaves some."""
        yield from self._blocks.begin()
        filling = Filling(self, range(self.places.start, min(self.places.stop, self.limit)))
        yield from self.fill(filling.places, filling.passes, filling.choose, filling.look)

    @property
    def steps(self) -> int:
        return self._blocks.passes

    @property
    def seconds(self) -> float:
        return self._blocks.seconds

    @property
    def row(self) -> Tokens:
        """The block's tokens (C,)."""
        return np.array(self.tokens(self.places), dtype=np.int32)

    def _settle(self, written: Mapping[int, int], most: int | None = None) -> None:
        """Leaves the text as it is."""

"""Infilling: writes spans of settled blocks anew, and keeps the text around them.

A marked block starts from noise in its spans; all its other positions are pinned. The text before the block is in the
cache, so the block sees the changes there. The text behind it is not seen, and stays as it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.block_diffusion import Usage, cut_at_eos, denoise_block, finished, room_for_blocks
from engine.decoding.fork_schedule import ForkSchedule
from engine.decoding.prefill import prefill, reuse_prefix
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.decoding.sampler import to_host
from engine.errors import SafelightError
from engine.events import PrefillFinished
from engine.forks import Mark
from engine.types import Tokens


@torch.inference_mode()
def infilling(run: Run, rows: Sequence[Tensor], marks: Sequence[Mark]) -> Decoding[None]:
    """Writes marked spans of the settled blocks ``rows`` (C,) behind the prompt anew, one block after the other.

    If the text goes on behind a block's last span, end tokens are banned in that block, so that the text stays whole.
    """
    run = run.unpinned()
    prompt, config, cache = run.prompt, run.config, run.cache
    room = room_for_blocks(run, 1)
    if sum(map(len, rows)) > room:
        raise SafelightError(f"the text takes {sum(map(len, rows))} tokens; only {room} fit after this prompt")
    marked = marked_positions(marks, [len(row) for row in rows])
    text, usage = SettledText([to_host(row) for row in rows], config), Usage()
    schedule = ForkSchedule(run)
    sampler = schedule.stepper.sampler
    for block, positions in marked.items():
        started = time.perf_counter()
        before = [prompt, *(torch.from_numpy(row).long() for row in text.rows[:block])]
        reused = min(len(prompt), reuse_prefix(cache, before))
        cache.reserve(sum(map(len, before)) + len(rows[block]))
        is_read = yield from prefill(before, cache, run.cancel)
        if not is_read:
            yield finished("cancelled", text.parts(), usage)
            return
        if block == min(marked):
            yield PrefillFinished(len(prompt), reused, time.perf_counter() - started)
        held = tuple((at, token) for at, token in enumerate(text.rows[block].tolist()) if at not in positions)
        settings = config.replace(pinned=held)
        if text.goes_on_behind(block, positions[-1]):
            settings = settings.replace(banned_tokens=(*config.banned_tokens, *config.eos_token_ids))
        schedule.stepper.adopt(sampler.changed(settings, block, len(rows[block])))
        canvas = yield from denoise_block(schedule, block, usage)
        if canvas is None:
            yield finished("cancelled", text.parts(), usage)
            return
        text.settle(block, canvas.last.argmax, positions[-1])
        yield canvas.committed(block, *text.block(block))
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
        found = []
        for block in range(len(self.rows)):
            tokens, text_length = self.block(block)
            found.append(tokens[:text_length])
            if text_length < len(tokens):
                break
        return found

    @property
    def has_ended(self) -> bool:
        """True if an end token ends the text."""
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

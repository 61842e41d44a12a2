"""Infilling with masks: writes spans of settled blocks anew in models that read all of a text in both directions.

The marked positions of a block become masks, and are filled as ``bidirectional`` fills a block. Unlike a canvas of
noise, they see the text behind them, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from engine.decoding.bidirectional import Filling
from engine.decoding.block_diffusion import Usage, finished
from engine.decoding.infilling import SettledText, marked_positions, settled_length
from engine.decoding.masked_run import MaskedRun
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.decoding.sampler import to_host
from engine.decoding.sampling import SDAR
from engine.events import CanvasCommitted, PrefillFinished
from engine.forks import Mark
from engine.types import Tokens


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def masked_infilling(run: Run, rows: Sequence[Tensor], marks: Sequence[Mark]) -> Decoding[None]:
    """Writes marked spans of the settled blocks ``rows`` (C,) behind the prompt anew, one block after the other.

    If the text goes on behind a block's last span, end tokens are banned in that block, so that the text stays whole.

    Raises:
        SafelightError: as ``bidirectional``; a mark outside the settled text.
    """
    run = dataclasses.replace(run, config=run.config.replace(pinned=()))
    text, usage, sampler = SettledText([to_host(row) for row in rows], run.config), Usage(), None
    marked = marked_positions(marks, [len(row) for row in rows])
    run.cache.truncate(0)
    yield PrefillFinished(len(run.prompt), 0, 0.0)
    for block, positions in marked.items():
        settings = run.config
        if text.goes_on_behind(block, positions[-1]):
            settings = settings.replace(banned_tokens=(*settings.banned_tokens, *settings.eos_token_ids))
        span = MarkedSpan(dataclasses.replace(run, config=settings), text.rows, block, positions)
        if sampler is not None:
            span.sampler.generator = sampler.generator  # goes on with the draws
        sampler = span.sampler
        yield from span.write_anew()
        usage.steps, usage.seconds = usage.steps + span.steps, usage.seconds + span.seconds
        if run.is_cancelled:
            yield finished("cancelled", text.parts(), usage)
            return
        text.settle(block, span.row, positions[-1])
        yield CanvasCommitted(block, *text.block(block), span.steps, "converged")
    yield finished("eos" if text.has_ended else "length", text.parts(), usage)


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

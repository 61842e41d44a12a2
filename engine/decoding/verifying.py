"""Verify: reads a finished canvas causally with the same weights, as a second opinion, and writes doubtful spans anew.

On the plain path the reading is the pass that commits the canvas: its hidden states are there, and only the head is
added. A device program commits a canvas with the next one's first step and keeps no hidden states of it. There the
reading is a pass of its own, and the cache is cut back afterwards, so that the text is the same as without it.

*Rewrite*: positions with a causal probability under ``verify_probability`` begin as noise again, all others are pinned,
and the canvas is denoised and read anew, up to ``verify_rewrites`` times. Pinned positions, the end token and the
tokens behind it are not doubtful. If more than half of a text would be doubtful, none of it is: a model whose causal
mode was never trained to predict has no second opinion, and a canvas begun anew is no rewrite of spans.

A rewrite stands if the whole block is causally at least as likely as before, and ends at the same place. A span alone
may become likelier by making the text behind it unlikely, and a shorter text is likelier as such. A rewrite that
changes nothing is the last.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.decoding.block_diffusion import FinishedCanvas, Usage, cut_at_eos, take_steps
from engine.decoding.fork_schedule import ForkSchedule
from engine.decoding.prefill import CausalReader
from engine.decoding.protocols import Decoding, Passes
from engine.decoding.sampler import to_host
from engine.events import CanvasVerified
from engine.types import Tokens

MOST_BLOCK_STEPS = 4_000  # denoising steps of a block, after which no rewrite begins
LATER = 4  # a rewrite takes at most this part of the steps: most of its canvas is written


@dataclass(frozen=True, eq=False)
class _Reading:
    """The results of reading a finished canvas."""

    canvas: FinishedCanvas
    probabilities: NDArray[np.float32]  # (C,) NaN where not known
    likelihood: float  # log-probability of the whole text, as far as it is known
    end: int  # positions of the text, an end token among them
    newest: tuple[int, Tensor] | None  # of the reader after it

    @property
    def tokens(self) -> Tokens:
        return self.canvas.last.argmax


class Verifier:
    """Reads the finished canvases of a run, one after the other.

    Attributes:
        is_held: the cache holds the canvas that was verified last; else it ends before it.
    """

    def __init__(self, schedule: ForkSchedule, reader: CausalReader) -> None:
        self.schedule, self.reader, self.config = schedule, reader, schedule.run.config
        self.is_held = False

    def verify(self, block: int, canvas: FinishedCanvas, usage: Usage) -> Decoding[FinishedCanvas | None]:
        """Reads a canvas behind the cache's text, and writes it anew where that is requested.

        Returns:
            The canvas that stands, with the steps of all; None if the run was cancelled.
        """
        cache, start, own = self.reader.cache, self.reader.cache.length, self.schedule.stepper.sampler
        before = self.reader.newest
        found = yield from self._read(canvas, usage)
        if found is None:
            return None
        kept, is_kept, is_last = found, True, False
        for rewrite in itertools.count():
            steps, next_canvas = found.canvas.steps, kept.tokens
            is_last |= rewrite == self.config.verify_rewrites or steps >= MOST_BLOCK_STEPS
            doubtful = self._doubtful(kept, own.pinned_mask(block)) & (not is_last)
            if doubtful.any():
                next_canvas = self._noise(block, kept.tokens, doubtful)
            yield CanvasVerified(block, steps - 1, rewrite, found.probabilities, is_kept, next_canvas, doubtful)
            if not doubtful.any():
                break
            cache.truncate(start)
            self.reader.newest = before
            first = torch.from_numpy(next_canvas).long().to(own.generator.device)
            rewritten = yield from take_steps(self.schedule, block, first, steps, usage)
            self.schedule.stepper.adopt(own)
            found = None if rewritten is None else (yield from self._read(rewritten, usage))
            if found is None:
                return None
            is_last = np.array_equal(found.tokens[: found.end], kept.tokens[: kept.end])
            is_kept = not is_last and found.end == kept.end and found.likelihood >= kept.likelihood
            kept = found if is_kept else kept
        self.is_held = kept is found and not self.schedule.stepper.commits_with_step
        if not self.is_held:
            cache.truncate(start)
            self.reader.newest = kept.newest
        return dataclasses.replace(kept.canvas, steps=steps)

    def _read(self, canvas: FinishedCanvas, usage: Usage) -> Passes[_Reading | None]:
        """Reads a canvas up to its end token; returns None if the run was cancelled before."""
        if self.schedule.run.is_cancelled:
            return None
        clock, argmax = time.perf_counter(), canvas.last.argmax
        end = min(len(argmax), cut_at_eos(argmax, self.config)[1] + 1)
        found = yield from self.reader.read(torch.from_numpy(argmax[:end]).long())
        padded = np.pad(np.exp(found), (0, len(argmax) - end), constant_values=np.nan)
        usage.seconds += time.perf_counter() - clock
        return _Reading(canvas, padded, float(np.nansum(found, dtype=np.float64)), end, self.reader.newest)

    def _doubtful(self, reading: _Reading, pinned: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns a mask (C,) of the positions to write anew."""
        is_end = np.isin(reading.tokens, self.config.eos_token_ids)
        is_low = reading.probabilities < self.config.verify_probability  # NaN is not low
        found: NDArray[np.bool_] = is_low & ~is_end & ~pinned
        return found & (2 * int(found.sum()) <= reading.end)

    def _noise(self, block: int, tokens: Tokens, doubtful: NDArray[np.bool_]) -> Tokens:
        """Returns a canvas (C,) with noise where it is doubtful; pins all else from here on."""
        stepper = self.schedule.stepper
        held = tuple((place, token) for place, token in enumerate(tokens.tolist()) if not doubtful[place])
        most = max(1, self.config.max_denoising_steps // LATER)
        settings = self.config.replace(pinned=held, seed_canvas=None, max_denoising_steps=most)
        stepper.adopt(stepper.sampler.changed(settings, block))
        return to_host(stepper.sampler.amended(stepper.sampler.noise(), block))

"""The blocks of text that is written a few tokens at a time: what autoregressive and masked decoding tell of it.

A block is a canvas of C positions with a filler where nothing is written yet. The decoder counts the text it has
generated from 0, wherever blocks begin, and may write ahead of the open block: what lies there shows when that begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from engine.events import CanvasCommitted, CanvasStarted, Event, GenerationFinished, StepFinished
from engine.types import Tokens


@dataclass(frozen=True)
class Predicted:
    """What a pass came to at one position."""

    argmax: int
    candidate: int  # drawn
    entropy: float  # nats, of what it was drawn from
    top_tokens: Tokens | None = None  # (K,) likeliest first
    top_probabilities: np.ndarray | None = None  # (K,) fp32


@dataclass(frozen=True)
class _Told:
    """The last pass."""

    written: Mapping[int, int]
    predicted: Mapping[int, Predicted]
    temperature: float


@dataclass
class WrittenBlocks:
    """Turns what each pass wrote into events.

    Each committed block has a step: a pass that goes on into blocks behind the open one is told in each that it brings
    to its end, its seconds in the first.

    Args:
        length: C. filler: the token id that stands where nothing is written. padding: what follows the text's end.
    """

    length: int
    filler: int
    padding: int
    top_k: int = 0
    text: dict[int, int] = field(default_factory=dict)  # all that is written, by its place in the generated text
    passes: int = 0
    seconds: float = 0.0
    _block: int = 0  # the open one
    _steps: int = 0  # of it
    _is_open: bool = False
    _committed: int = 0  # blocks
    _settled: int = 0  # tokens of the text, from its first, that stay
    _last: _Told | None = None

    def begin(self) -> Iterator[Event]:
        """Open the first block."""
        yield from self._open()

    def step(
        self,
        written: Mapping[int, int],
        predicted: Mapping[int, Predicted],
        seconds: float,
        temperature: float = 0.0,
        settled: int | None = None,
    ) -> Iterator[Event]:
        """One pass: what it wrote, and what it predicted, by place in the text. Full blocks are committed.

        Args:
            written: place -> token; a place is written once.
            settled: tokens of the text, from its first, that stay whatever comes, and have no end token among them:
                blocks are committed up to there. None: all that is written without a gap.
        """
        if not self._is_open:
            yield from self._open()
        self.text |= written
        self.passes, self.seconds = self.passes + 1, self.seconds + seconds
        self._last = _Told(written, predicted, temperature)
        yield self._step_of(predicted, seconds, temperature)
        if settled is None:
            settled = self._settled
            while settled in self.text:
                settled += 1
        self._settled = settled
        while self._start + self.length <= settled:
            yield from self._end(settled, settled)

    def finish(self, reason: Literal["eos", "length", "cancelled"], length: int) -> Iterator[Event]:
        """The end of the run.

        Args:
            length: tokens of the text, without an end token; what was written behind them is dropped.
        """
        end = length + (reason == "eos" and length in self.text)
        if reason == "cancelled":
            length = min(length, self._committed * self.length)
        else:
            while self._start < end or (self._is_open and self._committed == 0):
                yield from self._end(length, end)
        tokens = np.array([self.text[place] for place in range(length)], dtype=np.int32)
        yield GenerationFinished(reason, tokens, self._committed, self.passes, self.seconds)

    # --- parts -----------------------------------------------------------------------------------------------------

    @property
    def _start(self) -> int:
        """Where the open block begins in the text."""
        return self._block * self.length

    def _end(self, length: int, end: int) -> Iterator[Event]:
        """Commit the next block, whether or not it was open before the last pass.

        Args:
            length: tokens of the text. end: as many, and an end token behind them; what comes then is dropped.
        """
        if not self._is_open and self._last is not None:
            yield from self._open(without=self._last.written)
            yield self._step_of(self._last.predicted, 0.0, self._last.temperature)
        yield self._commit(min(self.length, length - self._start), end - self._start)

    def _canvas(self) -> Tokens:
        own = (self.text.get(self._start + place, self.filler) for place in range(self.length))
        return np.fromiter(own, dtype=np.int32, count=self.length)

    def _open(self, without: Mapping[int, int] | None = None) -> Iterator[Event]:
        self._is_open, self._steps = True, 0
        canvas, pinned = self._canvas(), np.zeros(self.length, dtype=np.bool_)
        for place in without or ():
            if 0 <= place - self._start < self.length:
                canvas[place - self._start] = self.filler
        yield CanvasStarted(self._block, canvas, pinned, self.filler)

    def _step_of(self, predicted: Mapping[int, Predicted], seconds: float, temperature: float) -> StepFinished:
        canvas = self._canvas()
        argmax, candidates = canvas.copy(), canvas.copy()
        entropy = np.zeros(self.length, dtype=np.float32)
        top_tokens = np.repeat(canvas[:, None], self.top_k, axis=1)
        top_probabilities = np.zeros((self.length, self.top_k), dtype=np.float32)
        if self.top_k:
            top_probabilities[:, 0] = 1.0
        for place, found in predicted.items():
            index = place - self._start
            if 0 <= index < self.length:
                argmax[index], candidates[index], entropy[index] = found.argmax, found.candidate, found.entropy
                if self.top_k and found.top_tokens is not None and found.top_probabilities is not None:
                    top_tokens[index], top_probabilities[index] = found.top_tokens, found.top_probabilities
        accepted = np.fromiter(
            (self._start + place in self.text for place in range(self.length)), dtype=np.bool_, count=self.length
        )
        top = (top_tokens, top_probabilities) if self.top_k else (None, None)
        step, self._steps = self._steps, self._steps + 1
        return StepFinished(
            self._block, step, temperature, argmax, candidates, entropy, accepted, canvas, seconds, *top
        )

    def _commit(self, text_length: int, kept: int) -> CanvasCommitted:
        tokens = self._canvas()
        tokens[kept:] = self.padding
        done = CanvasCommitted(self._block, tokens, text_length, self._steps, "converged")
        self._is_open, self._block, self._committed = False, self._block + 1, self._committed + 1
        return done

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


@dataclass
class WrittenBlocks:
    """Turns what each pass wrote into events.

    A full block is committed when the next pass is told, or the end: until then the text may still end in it. Each
    committed block has a step: a pass that goes on beyond blocks which it fills is told in each of them.

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
    _block: int = 0  # the open one, or the next
    _steps: int = 0  # of it
    _is_open: bool = False
    _committed: int = 0  # blocks
    _settled: int = 0  # tokens of the text, from its first, that stay
    _written: Mapping[int, int] = field(default_factory=dict)  # by the last pass
    _predicted: Mapping[int, Predicted] = field(default_factory=dict)  # by the last pass
    _temperature: float = 0.0  # of the last pass

    def begin(self) -> Iterator[Event]:
        """Open the first block."""
        yield self._open()

    def step(
        self,
        written: Mapping[int, int],
        predicted: Mapping[int, Predicted],
        seconds: float,
        temperature: float = 0.0,
        settled: int | None = None,
    ) -> Iterator[Event]:
        """One pass: what it wrote, and what it predicted, by place in the text.

        Args:
            written: place -> token; a place is written once.
            settled: how many tokens of the text, from its first, stay whatever comes; blocks are committed up to
                there. None: all that are written without a gap.
        """
        yield from self._commit_settled()
        if not self._is_open:
            yield self._open()
        self.text |= written
        self.passes, self.seconds = self.passes + 1, self.seconds + seconds
        self._written, self._predicted, self._temperature = written, predicted, temperature
        yield self._step_of(seconds)
        if settled is not None:
            self._settled = settled
        else:
            while self._settled in self.text:
                self._settled += 1

    def finish(self, reason: Literal["eos", "length", "cancelled"], length: int) -> Iterator[Event]:
        """The end of the run.

        Args:
            length: tokens of the text, without an end token; what was written behind them is dropped.
        """
        end = length + (reason == "eos" and length in self.text)
        for place in [place for place in self.text if place >= end]:
            del self.text[place]
        if reason == "cancelled":
            self._settled = min(self._settled, length)
            yield from self._commit_settled()
            length = min(length, self._start)
        else:
            while self._start < end or (self._is_open and self._committed == 0):
                if not self._is_open:
                    yield from self._open_late()
                yield self._commit(min(self.length, length - self._start))
        tokens = np.array([self.text[place] for place in range(length)], dtype=np.int32)
        yield GenerationFinished(reason, tokens, self._committed, self.passes, self.seconds)

    # --- parts -----------------------------------------------------------------------------------------------------

    @property
    def _start(self) -> int:
        """Where the open block begins in the text."""
        return self._block * self.length

    def _commit_settled(self) -> Iterator[Event]:
        """Commit the blocks of which nothing is open any more."""
        while self._start + self.length <= self._settled:
            if not self._is_open:
                yield from self._open_late()
            yield self._commit(self.length)

    def _open(self, without: Mapping[int, int] | None = None) -> CanvasStarted:
        self._is_open, self._steps = True, 0
        canvas = self._canvas()
        for place in without or ():
            if 0 <= place - self._start < self.length:
                canvas[place - self._start] = self.filler
        return CanvasStarted(self._block, canvas, np.zeros(self.length, dtype=np.bool_), self.filler)

    def _open_late(self) -> Iterator[Event]:
        """Open a block which the last pass went through, and tell that pass in it; its seconds are told already."""
        yield self._open(self._written)
        yield self._step_of(0.0)

    def _canvas(self) -> Tokens:
        own = (self.text.get(self._start + place, self.filler) for place in range(self.length))
        return np.fromiter(own, dtype=np.int32, count=self.length)

    def _step_of(self, seconds: float) -> StepFinished:
        """The last pass, in the open block."""
        canvas = self._canvas()
        argmax, candidates = canvas.copy(), canvas.copy()
        entropy = np.zeros(self.length, dtype=np.float32)
        top_tokens = np.repeat(canvas[:, None], self.top_k, axis=1)
        top_probabilities = np.zeros((self.length, self.top_k), dtype=np.float32)
        if self.top_k:
            top_probabilities[:, 0] = 1.0
        for place, found in self._predicted.items():
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
            self._block, step, self._temperature, argmax, candidates, entropy, accepted, canvas, seconds, *top
        )

    def _commit(self, text_length: int) -> CanvasCommitted:
        tokens = self._canvas()
        tokens[min(text_length + 1, self.length) :] = self.padding
        if text_length < self.length and self._start + text_length not in self.text:
            tokens[text_length:] = self.padding
        done = CanvasCommitted(self._block, tokens, text_length, self._steps, "converged")
        self._is_open, self._block, self._committed = False, self._block + 1, self._committed + 1
        return done

"""Makes the events of text that is written a few tokens at a time, for autoregressive and masked decoding.

A block is a canvas of C positions, with a filler where nothing is written yet. The decoder counts the text it has
generated from 0, wherever blocks begin. It may write ahead of the open block; those tokens are shown when their block
begins. Some blocks of a run may be denoised.

The last part is how such a run begins: room behind the prompt, the mask token, its blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from engine.config import ModelConfig
from engine.decoding.run import Run
from engine.decoding.sampler import check_cells
from engine.errors import SafelightError
from engine.events import CanvasCommitted, CanvasStarted, Event, GenerationFinished, StepFinished
from engine.models.causal.config import CausalConfig
from engine.types import Tokens


@dataclass(frozen=True)
class Predicted:
    """The prediction of a pass at one position."""

    argmax: int
    candidate: int  # drawn
    entropy: float  # nats, of the distribution that it was drawn from
    top_tokens: Tokens | None = None  # (K,) likeliest first
    top_probabilities: np.ndarray | None = None  # (K,) fp32


@dataclass
class WrittenBlocks:
    """Turns the tokens of each pass into events.

    Each committed block has a step. A pass that goes on into blocks behind the open one is reported in each block that
    it completes, with its seconds in the first.

    Args:
        length: C.
        filler: the token id that stands where nothing is written.
        padding: follows the text's end.
        ends: tokens that end the text; a block with one is committed by ``finish``, which gets the length of the text.
        pinned: place -> token of given tokens in the first block; they count as written from its beginning.
        in_order: each token is written behind the one before it, so that there are no gaps.
    """

    length: int
    filler: int
    padding: int
    top_k: int = 0
    ends: frozenset[int] = frozenset()
    pinned: Mapping[int, int] = field(default_factory=dict)
    in_order: bool = False
    text: dict[int, int] = field(default_factory=dict)  # written tokens, by their place in the generated text
    passes: int = 0
    seconds: float = 0.0
    _block: int = 0  # index of the open one, or of the next: as many are committed
    _steps: int = 0  # of the open block
    _is_open: bool = False
    _settled: int = 0  # tokens from the text's first that stay
    _last: tuple[Mapping[int, int], Mapping[int, Predicted], float] = ({}, {}, 0.0)  # of the last pass, as of ``step``
    _known: dict[int, Predicted] = field(default_factory=dict)  # of written tokens that are not committed yet

    def __post_init__(self) -> None:
        self.text |= self.pinned

    def begin(self, without: Iterable[int] = ()) -> Iterator[Event]:
        """Opens the next block; places in ``without`` have the filler."""
        self._is_open, self._steps = True, 0
        canvas = self._canvas()
        for place in without:
            if 0 <= place - self._start < self.length:
                canvas[place - self._start] = self.filler
        own = (self._start + place in self.pinned for place in range(self.length))
        pinned = np.fromiter(own, dtype=np.bool_, count=self.length)
        yield CanvasStarted(self._block, canvas, pinned, self.filler)

    def add(self, committed: CanvasCommitted) -> None:
        """Counts the next block, which was denoised; its events were yielded already."""
        own = committed.tokens[: committed.text_length].tolist()
        self.text |= dict(enumerate(own, self._start))
        self._block += 1

    def skip_to(self, block: int) -> None:
        """Makes a block the next one; those before it are known, and have no events."""
        self._block = block

    @property
    def next_step(self) -> tuple[int, int]:
        """The block and the step of the next pass."""
        return self._block, self._steps if self._is_open else 0

    def put(self, given: Mapping[int, int], pinned: Mapping[int, int]) -> None:
        """Writes tokens that no pass drew, by their place; ``pinned`` are all tokens that stay, by theirs."""
        self.text |= given
        self.pinned = pinned
        self._known = {place: prediction for place, prediction in self._known.items() if place not in given}

    def step(
        self,
        written: Mapping[int, int],
        predicted: Mapping[int, Predicted],
        seconds: float,
        temperature: float = 0.0,
        settled: int | None = None,
    ) -> Iterator[Event]:
        """Adds one pass: its tokens and its predictions, by place in the text. Full blocks are committed.

        Args:
            written: place -> token; a place is written once.
            settled: tokens from the text's first that will stay and have no end token among them; blocks are committed
                up to there. None: all that is written without a gap, up to an end token.
        """
        if not self._is_open:
            yield from self.begin()
        self.text |= written
        self.passes, self.seconds = self.passes + 1, self.seconds + seconds
        self._last = written, predicted, temperature
        self._known |= {place: predicted[place] for place in written.keys() & predicted.keys()}
        yield self._step_of(predicted, seconds, temperature)
        if settled is None:
            settled = self._settled
            while settled in self.text and self.text[settled] not in self.ends:
                settled += 1
        yield from self.settle(settled)

    def settle(self, settled: int) -> Iterator[Event]:
        """Commits the blocks that are full of settled tokens; see ``step``."""
        self._settled = settled
        while self._start + self.length <= settled:
            yield from self._end(settled, settled)

    def finish(self, reason: Literal["eos", "length", "cancelled"], length: int, why: str = "") -> Iterator[Event]:
        """Commits the remaining blocks, and ends the run.

        Args:
            length: tokens of the text, without an end token; tokens written behind them are dropped. If the run is
                cancelled, an open block is committed only if everything that it shows is text.
            why: see ``GenerationFinished``.
        """
        if reason == "cancelled" and (not self.in_order or not self._steps):
            length = min(length, self._start)
        end = length + (reason == "eos" and length in self.text)
        is_empty = reason != "cancelled" and self._is_open and self._block == 0
        while self._start < end or is_empty:
            yield from self._end(length, end)
            is_empty = False
        tokens = np.array([self.text[place] for place in range(length)], dtype=np.int32)
        yield GenerationFinished(reason, tokens, self._block, self.passes, self.seconds, why)

    @property
    def _start(self) -> int:
        """The place of the open block in the text."""
        return self._block * self.length

    def _end(self, length: int, end: int) -> Iterator[Event]:
        """Commits the next block, whether or not it was open before the last pass.

        Args:
            length: tokens of the text.
            end: the same, and an end token behind them; tokens behind that are dropped.
        """
        if not self._is_open:
            written, predicted, temperature = self._last
            yield from self.begin(without=written)
            yield self._step_of(predicted, 0.0, temperature)
        elif not self._steps:  # full before any pass
            yield self._step_of({}, 0.0, 0.0)
        yield self._commit(min(self.length, length - self._start), end - self._start)

    def _canvas(self) -> Tokens:
        own = (self.text.get(self._start + place, self.filler) for place in range(self.length))
        return np.fromiter(own, dtype=np.int32, count=self.length)

    def _step_of(self, predicted: Mapping[int, Predicted], seconds: float, temperature: float) -> StepFinished:
        canvas = self._canvas()
        argmax, candidates = canvas.copy(), canvas.copy()
        entropy = np.zeros(self.length, dtype=np.float32)
        top_tokens = np.repeat(canvas[:, None], self.top_k, axis=1)
        top_probabilities = np.zeros((self.length, self.top_k), dtype=np.float32)
        if self.top_k:
            top_probabilities[:, 0] = 1.0
        accepted = np.fromiter(
            (self._start + place in self.text for place in range(self.length)), dtype=np.bool_, count=self.length
        )
        for place, prediction in predicted.items():
            index = place - self._start
            if 0 <= index < self.length:
                argmax[index], candidates[index], entropy[index] = (
                    prediction.argmax,
                    prediction.candidate,
                    prediction.entropy,
                )
        shown = predicted if self._steps else {**self._known, **predicted}  # at first also tokens written ahead
        for place, prediction in shown.items():
            index, (ids, shares) = place - self._start, (prediction.top_tokens, prediction.top_probabilities)
            if 0 <= index < self.length and self.top_k and ids is not None and shares is not None:
                top_tokens[index], top_probabilities[index] = ids, shares
        top = (top_tokens, top_probabilities) if self.top_k else (None, None)
        step, self._steps = self._steps, self._steps + 1
        return StepFinished(
            self._block, step, temperature, argmax, candidates, entropy, accepted, canvas, seconds, *top
        )

    def _commit(self, text_length: int, kept: int) -> CanvasCommitted:
        tokens = self._canvas()
        tokens[kept:] = self.padding
        done = CanvasCommitted(self._block, tokens, text_length, self._steps, "converged")
        self._is_open = False
        self._block += 1
        self._known = {place: prediction for place, prediction in self._known.items() if place >= self._start}
        return done


def room_behind(run: Run) -> int:
    """Returns how many positions the model has behind the prompt, 1 or more.

    Raises:
        SafelightError: it has none.
    """
    length, most = len(run.prompt), run.model.config.max_position_embeddings
    if length >= most:
        raise SafelightError(
            f"the prompt is {length} tokens long and the model has {most} positions. Shorten the prompt"
        )
    return most - length


def required_mask(run: Run) -> int:
    """Returns the token id of a mask, for a decoder that begins with masks.

    Raises:
        SafelightError: the model has none, or there are settings of a canvas of noise.
    """
    mask = mask_of(run.model.config)
    if run.config.pinned:
        raise SafelightError("this decoder does not start from noise; leave out pinned")
    return mask


def mask_of(shape: ModelConfig) -> int:
    """Returns the token id of a model's mask.

    Raises:
        SafelightError: the model has none.
    """
    mask = _mask(shape)
    if mask is None:
        raise SafelightError("this model has no mask token, which this decoder needs; choose another one")
    return mask


def blocks_of(run: Run, *, in_order: bool = False) -> WrittenBlocks:
    """Returns the blocks of a run, none of them begun. Unwritten positions have the mask, or else padding.

    Args:
        in_order: see ``WrittenBlocks``.

    Raises:
        SafelightError: a pinned position outside the canvas, or a pinned token outside the vocabulary.
    """
    shape, config = run.model.config, run.config
    length, mask = config.canvas_length or shape.canvas_length, _mask(shape)
    check_cells("pinned", config.pinned, length, shape.vocab_size)
    filler = config.pad_token_id if mask is None else mask
    top_k, ends = min(config.top_k, shape.vocab_size), frozenset(config.eos_token_ids)
    return WrittenBlocks(length, filler, config.pad_token_id, top_k, ends, dict(config.pinned), in_order)


def _mask(shape: ModelConfig) -> int | None:
    return shape.mask_token_id if isinstance(shape, CausalConfig) else None

"""Measures the order in which a run settles (left to right, thought or answer first) and the positions left in doubt.

Uses only numpy. A position settles at the first step from which its argmax no longer changes. Padding and pinned
positions do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.state.run.canvas import Mask, Tokens
from app.state.run.replay import BlockRecord, Floats, Frame
from engine.text.tags import CLOSE, OPEN

DOUBT_NATS = 0.5
"""A position is in doubt if its entropy at the block's last step is this much or more."""
DOUBT_SHARE = 0.25
"""A position is also in doubt if its second likeliest token has this probability or more at that step."""


@dataclass(frozen=True, eq=False)
class BlockOrder:
    """The order of one block so far, over S steps and the T positions before its end token."""

    index: int
    steps: int
    committed: bool
    tokens: Tokens  # (T,) as committed, or the last argmax
    settled_at: NDArray[np.int32]  # (T,)
    free: Mask  # (T,) written by the model, see ``BlockRecord``
    entropy: Floats  # (T,) nats at the last step
    runners: Tokens | None  # (T,) the second likeliest token at the last step; None if it was not recorded
    shares: Floats | None  # (T,) probabilities of ``runners``
    is_written: bool = False  # a few tokens at a time, each permanently

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(S,) number of positions that settle at each step."""
        return np.bincount(self.settled_at[self.free], minlength=self.steps)[: self.steps]

    @cached_property
    def centres(self) -> NDArray[np.float64]:
        """(S,) mean place of the positions that settle at a step: 0 is left, 1 right; NaN if none settle."""
        sums = np.bincount(self.settled_at[self.free], self.places[self.free], minlength=self.steps)[: self.steps]
        return np.where(self.counts > 0, sums / np.maximum(self.counts, 1), np.nan)

    @property
    def places(self) -> NDArray[np.float64]:
        """(T,) the place of each position: 0 is left, 1 right."""
        return np.arange(len(self.tokens)) / max(1, len(self.tokens) - 1)


class Doubt(NamedTuple):
    """A position that the model was still unsure of when its block ended or when it was written."""

    block: int
    position: int
    token: int
    entropy: float  # nats
    runner: int | None  # the second likeliest token; None if it was not recorded
    share: float  # probability of ``runner``, 0 if it was not recorded


def block_order(record: BlockRecord) -> BlockOrder:
    text, last = record.counted, record.steps - 1
    tokens = record.final if record.final is not None else record.argmax[last] if record.steps else record.noise
    has_top = record.steps > 0 and record.top_tokens is not None and record.top_tokens.shape[2] > 1
    runners = shares = None
    if has_top and record.top_tokens is not None and record.top_probabilities is not None:
        runners, shares = record.top_tokens[last, text, 1], record.top_probabilities[last, text, 1]
    return BlockOrder(
        index=record.index,
        steps=record.steps,
        committed=record.final is not None,
        tokens=tokens[text].copy(),
        settled_at=record.settled_at[text],
        free=record.free[text],
        entropy=record.entropy[last, text].copy() if record.steps else np.zeros(len(tokens[text]), dtype=np.float32),
        runners=None if runners is None else runners.copy(),
        shares=None if shares is None else shares.copy(),
        is_written=record.has_masks,
    )


class RunOrder:
    """The order of a whole run, over the N positions of all its blocks; ``piece`` returns the text of a token.

    Blocks settle one after the other by design, so left and right are compared only within a block.
    """

    def __init__(self, blocks: Sequence[BlockOrder], piece: Callable[[int], str]) -> None:
        self.blocks = [block for block in blocks if block.steps]
        self._starts = np.cumsum([0, *(block.steps for block in self.blocks)])
        self.tokens = _joined([block.tokens for block in self.blocks])  # (N,)
        self._settled = _joined(
            [block.settled_at + start for block, start in zip(self.blocks, self._starts, strict=False)]
        )
        self._free = _joined([block.free for block in self.blocks]).astype(np.bool_)
        self.thinking, self.marks = thinking(self.tokens, piece)  # (N,) inside a thought; its opening and closing tags
        self.answering = ~self.thinking & ~self.marks  # (N,)

    def thinking_of(self, block: int) -> Mask:
        """Returns a mask (T,) of the block's positions that belong to the thought."""
        return self.thinking[dict(self.spans())[block]]

    def spans(self) -> list[tuple[int, slice]]:
        """Returns the index of each block with its slice of the N positions."""
        ends = np.cumsum([0, *(len(one.tokens) for one in self.blocks)]).tolist()
        return [(one.index, slice(*ends[at : at + 2])) for at, one in enumerate(self.blocks)]

    @property
    def has_thought(self) -> bool:
        return bool(self.thinking.any())

    def settled(self, which: Mask) -> Frame | None:
        """Returns the frame at which the last of some positions (N,) settled; None if none of them is free."""
        steps = self._settled[which & self._free]
        if not len(steps):
            return None
        place = int(np.searchsorted(self._starts, steps.max(), side="right")) - 1
        return Frame(self.blocks[place].index, int(steps.max() - self._starts[place]))

    @property
    def later_thought(self) -> float:
        """The share of the thought that settled after all of the answer had settled."""
        thought, answer = (self._settled[which & self._free] for which in (self.thinking, self.answering))
        return float((thought > answer.max()).mean()) if len(thought) and len(answer) else 0.0

    @property
    def correlation(self) -> float | None:
        """Rank correlation of place and settling step within blocks, -1 to 1; None if all settle at once."""
        products = squares = others = 0.0
        for block in self.blocks:
            steps, places = (_ranks(values[block.free]) for values in (block.settled_at, block.places))
            products += float(steps @ places)
            squares += float(steps @ steps)
            others += float(places @ places)
        return products / float(np.sqrt(squares * others)) if squares > 0 and others > 0 else None

    @property
    def is_written(self) -> bool:
        """True if every token of the run was written permanently, so that none was left in doubt."""
        return bool(self.blocks) and all(block.is_written for block in self.blocks)

    @property
    def doubts(self) -> list[Doubt]:
        """The positions in doubt of the finished blocks, in reading order."""
        return [doubt for block in self.blocks if block.committed for doubt in _doubts(block)]


def thinking(tokens: Tokens, piece: Callable[[int], str]) -> tuple[Mask, Mask]:
    """Returns two masks of an answer's tokens (N,): those inside a channel, and those that open or close one."""
    kinds = {token: piece(token) for token in np.unique(tokens).tolist()}
    opens = np.isin(tokens, [token for token, text in kinds.items() if text == OPEN])
    marks = opens | np.isin(tokens, [token for token, text in kinds.items() if text == CLOSE])
    if not len(tokens):
        return marks, marks
    latest = np.maximum.accumulate(np.where(marks, np.arange(len(tokens)), -1))
    return (latest >= 0) & opens[latest] & ~marks, marks


def _doubts(block: BlockOrder) -> list[Doubt]:
    shares = np.zeros(len(block.tokens)) if block.shares is None else block.shares
    places = np.flatnonzero(block.free & ((block.entropy >= DOUBT_NATS) | (shares >= DOUBT_SHARE)))
    return [
        Doubt(
            block.index,
            place,
            int(block.tokens[place]),
            float(block.entropy[place]),
            None if block.runners is None else int(block.runners[place]),
            float(shares[place]),
        )
        for place in places.tolist()
    ]


def _ranks(values: NDArray[np.float64] | NDArray[np.int32]) -> NDArray[np.float64]:
    """Returns ranks minus their mean; equal values share a rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return np.asarray(ranks - ranks.mean() if len(ranks) else ranks, dtype=np.float64)


def _joined(parts: Sequence[NDArray[np.int32] | Mask]) -> NDArray[np.int32]:
    return np.concatenate([*parts, np.zeros(0, dtype=np.int32)]).astype(np.int32)

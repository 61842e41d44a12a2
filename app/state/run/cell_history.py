"""The history of one position over the steps of its block. Knows neither Qt nor the text of a token."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.state.run.canvas import Mask, Tokens
from app.state.run.replay import BlockRecord, Floats

Ranks = NDArray[np.int32]
OUTSIDE = -1
"""The rank of a token that is not among the recorded top candidates."""


class Ranked(NamedTuple):
    """A candidate and its probability."""

    token: int
    probability: float


class TokenRun(NamedTuple):
    """Steps ``start`` to ``stop`` - 1, over which a token stays the same."""

    start: int
    stop: int
    token: int


class Point(NamedTuple):
    """The rank of a token at a step; 0 is the likeliest."""

    step: int
    rank: int
    share: float  # its probability


@dataclass(frozen=True)
class RankLine:
    """The ranks of one token: a point for each step at which it is among the recorded candidates."""

    token: int
    points: tuple[Point, ...]

    @cached_property
    def weight(self) -> float:
        """The sum of its probabilities over all steps."""
        return sum(point.share for point in self.points)

    @cached_property
    def stretches(self) -> tuple[tuple[Point, ...], ...]:
        """The points in groups of consecutive steps."""
        pairs = enumerate(pairwise(self.points), start=1)
        cuts = [place for place, (before, point) in pairs if point.step > before.step + 1]
        return tuple(self.points[a:b] for a, b in zip([0, *cuts], [*cuts, len(self.points)], strict=True))


@dataclass(frozen=True, eq=False)
class History:
    """The history of a position over S steps, with K recorded top candidates a step (0 if none were recorded)."""

    block: int
    position: int
    argmax: Tokens  # (S,)
    candidates: Tokens  # (S,) sampled
    following: Tokens  # (S,) the token on the canvas after the step
    accepted: Mask  # (S,)
    taken_back: Mask  # (S,)
    entropy: Floats  # (S,) nats
    top_tokens: Tokens  # (S, K), likeliest first
    top_probabilities: Floats  # (S, K)
    settled_at: int  # the first step from which the argmax no longer changes
    pinned: bool  # from the start
    held: Mask  # (S,) pinned at the step
    fits: bool  # written by the model, and pinned because it fits the answer's format
    padding: bool  # after the end of the block's text
    final: int | None  # None if the block was not committed
    has_masks: bool = False  # see ``BlockRecord``
    causal: float | None = None  # probability of its final token by the text before it alone; None if not read

    @property
    def steps(self) -> int:
        return len(self.argmax)

    @property
    def depth(self) -> int:
        """Recorded top candidates a step; 0 if there are none."""
        return int(self.top_tokens.shape[1])

    @property
    def accepted_count(self) -> int:
        """Steps at which the position was accepted."""
        return int(self.accepted.sum())

    @property
    def held_from(self) -> int | None:
        """The step from which the position is pinned to the end; None if it is pinned from the start or not at all."""
        if self.pinned or not self.steps or not self.held[-1]:
            return None
        return int(np.flatnonzero(~self.held)[-1]) + 1 if not self.held.all() else 0

    @property
    def taken_back_count(self) -> int:
        return int(self.taken_back.sum())

    @cached_property
    def lines(self) -> tuple[RankLine, ...]:
        """The line of every recorded token, the one with the most probability over all steps first."""
        points: dict[int, list[Point]] = {}
        tops, shares = self.top_tokens.tolist(), self.top_probabilities.tolist()
        for step, (row, row_shares) in enumerate(zip(tops, shares, strict=True)):
            if self.has_masks and not row_shares[0]:  # not predicted yet
                continue
            for rank, (token, share) in enumerate(zip(row, row_shares, strict=True)):
                points.setdefault(token, []).append(Point(step, rank, share))
        lines = [RankLine(token, tuple(line)) for token, line in points.items()]
        return tuple(sorted(lines, key=lambda line: (-line.weight, line.token)))

    @cached_property
    def argmax_ranks(self) -> Ranks:
        """(S,) rank of the argmax among the recorded candidates."""
        return self._ranks_of(self.argmax)

    @cached_property
    def candidate_ranks(self) -> Ranks:
        """(S,) rank of the sampled candidate among the recorded candidates."""
        return self._ranks_of(self.candidates)

    def _ranks_of(self, tokens: Tokens) -> Ranks:
        if not self.depth:
            return np.full(self.steps, OUTSIDE, dtype=np.int32)
        here = self.top_tokens == tokens[:, None]
        return np.where(here.any(axis=1), here.argmax(axis=1), OUTSIDE).astype(np.int32)

    @property
    def samples_outside(self) -> bool:
        """True if a sampled candidate was ever less likely than all recorded candidates."""
        return bool((self.candidate_ranks == OUTSIDE).any())

    @cached_property
    def argmax_runs(self) -> tuple[TokenRun, ...]:
        """The argmax tokens in order, equal ones in a row joined."""
        return runs_of(self.argmax)

    def top(self, step: int) -> list[Ranked]:
        """Returns the recorded candidates at a step, likeliest first. Raises IndexError outside the steps."""
        tokens, shares = self.top_tokens[step].tolist(), self.top_probabilities[step].tolist()
        if self.has_masks and not shares[0]:  # not predicted yet
            return []
        return [Ranked(token, share) for token, share in zip(tokens, shares, strict=True)]


def history_of(record: BlockRecord, position: int) -> History:
    """Returns the history of a position. Raises IndexError outside the canvas."""
    if not 0 <= position < record.length:
        raise IndexError(f"position {position} is outside the canvas of {record.length} tokens")
    steps = record.steps
    tops, shares = record.top_tokens, record.top_probabilities
    recorded, causal = tops is not None and shares is not None, record.causal
    return History(
        block=record.index,
        position=position,
        argmax=record.argmax[:, position],
        candidates=record.candidates[:, position],
        following=record.following[:, position],
        accepted=record.accepted[:, position],
        taken_back=record.taken_back[:, position],
        entropy=record.entropy[:, position],
        top_tokens=tops[:, position] if recorded and tops is not None else np.zeros((steps, 0), dtype=np.int32),
        top_probabilities=(
            shares[:, position] if recorded and shares is not None else np.zeros((steps, 0), dtype=np.float32)
        ),
        settled_at=int(record.settled_at[position]),
        pinned=bool(record.pinned[position]),
        held=record.held[:, position],
        fits=bool(record.snapshots[-1].fitting_mask[position]),
        padding=record.text_length is not None and position >= record.text_length,
        final=None if record.final is None else int(record.final[position]),
        has_masks=record.has_masks,
        causal=None if causal is None or np.isnan(causal[position]) else float(causal[position]),
    )


def runs_of(tokens: Tokens) -> tuple[TokenRun, ...]:
    """Returns the runs of equal tokens in a row."""
    if not len(tokens):
        return ()
    starts = [0, *(np.flatnonzero(tokens[1:] != tokens[:-1]) + 1).tolist()]
    return tuple(TokenRun(a, b, int(tokens[a])) for a, b in zip(starts, [*starts[1:], len(tokens)], strict=True))

"""Folds a run's events into what a canvas shows. Knows neither Qt nor torch, and no text: tokens are numbers here.

Two views of one truth. *Raw*: what stands on the canvas, noise included. *Calm*: accepted tokens as they are, and the
model's best guess (argmax) everywhere else. Every token shown comes from an event; none is made up.

A block with a filler is written over masks: there a step is a pass, what is accepted is written, and nothing is noise.

Arrays are replaced, never written into, so ``copy.copy`` of a block is a snapshot.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine import (
    CanvasCommitted,
    CanvasStarted,
    CanvasVerified,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    PrefixPinned,
    SlotsRead,
    StepFinished,
)

Tokens = NDArray[np.int32]
Mask = NDArray[np.bool_]

NEVER = -1
"""In place of a token, where a position was never accepted."""
SETTLED_AFTER = 2
"""Steps in a row that a position must be accepted with one argmax before it counts as settled."""


class CellState(enum.IntEnum):
    """What has become of a position. The numbers index arrays of states."""

    NOISE = 0  # re-noised: a uniform random token
    CANDIDATE = 1  # not accepted; the calm view shows the best guess
    ACCEPTED = 2  # candidate kept at this step
    REMELTED = 3  # accepted at the step before, re-noised at this one
    SETTLED = 4  # accepted with one and the same argmax for two steps or more, or committed
    GIVEN = 5  # pinned: by the user, or forced or chosen by the format that the answer must fit
    PADDING = 6  # the end token and what follows it, once committed
    FITTING = 7  # written by the model and pinned, as it fits the format of the answer
    MASKED = 8  # nothing is written there yet; the calm view shows a best guess where the pass had one


def predicted_by(argmax: Tokens, written: Mask, filler: int) -> Mask:
    """(C,) where a pass over masks predicted: ``written`` is what was before it."""
    found: Mask = ~written & (argmax != filler)
    return found


@dataclass(frozen=True)
class Cell:
    """One position as shown."""

    token: int
    state: CellState
    entropy: float | None  # nats at the latest step; None before the first
    accepted_steps: int  # steps at which it was accepted
    remelts: int
    causal: float | None = None  # its probability by the text before it alone; None where that was not read


@dataclass(frozen=True)
class PinnedRound:
    """One time that a canvas was read under the format of the answer, and its beginning pinned."""

    number: int  # from 0
    step: int  # that comes next
    pinned: int  # positions that are, from here on
    new: int  # of these, how many were not before
    written: int  # of those, how many the model had written; the format forced or chose the others


@dataclass(eq=False)
class BlockState:
    """One canvas, from its noise to its commit. C is its length.

    A position is SETTLED at a step if it was accepted at this step and at the one before, the argmax there was the
    same at both, and the accepted candidate is that argmax. It is REMELTED at the one step that undoes an acceptance.
    A pinned position is GIVEN throughout, unless an end token before it turned it into padding. What a round pins of
    what the model wrote is FITTING; what it makes noise of again is not accepted any more, but not remelted either.

    A pass over masks predicts some positions. ``entropy`` and the top candidates are those of the latest pass that
    predicted a position: once it is written, how it was; 0 where none did.

    ``causal`` is of the argmax canvas of the step behind which it was read, then of what stands; NaN where that is
    written anew. The step behind such a reading begins with what it makes noise of, which is not remelted.
    """

    block_index: int
    shown: Tokens  # (C,) what stands on the canvas
    pinned_mask: Mask  # (C,)
    step: int = -1  # the latest finished step
    temperature: float | None = None
    argmax_canvas: Tokens | None = None
    entropy: NDArray[np.float32] | None = None
    accepted_mask: Mask = field(init=False)
    remelted_mask: Mask = field(init=False)
    settled_mask: Mask = field(init=False)
    agreed_steps: NDArray[np.int32] = field(init=False)  # steps in a row accepted with one argmax
    accepted_steps: NDArray[np.int32] = field(init=False)
    remelts: NDArray[np.int32] = field(init=False)
    kept: Tokens = field(init=False)  # (C,) the candidate that was accepted last; NEVER where none was
    fitting_mask: Mask = field(init=False)  # (C,) of the pinned positions, those that the model wrote
    round: PinnedRound | None = None  # the latest
    read: SlotsRead | None = None  # what the slots of a decision came to
    shown_before: Tokens | None = None  # (C,) these three as they were before the latest step
    kept_before: Tokens | None = None
    accepted_before: Mask | None = None
    top_tokens: Tokens | None = None  # (C, K) of the latest step, where the run reports them
    top_probabilities: NDArray[np.float32] | None = None
    seconds: float = 0.0  # of all steps
    text_length: int | None = None  # None until committed
    outcome: Tokens | None = None  # (T,) the text that it comes to, where that is known: committed, or in a replay
    reason: Literal["converged", "step_cap"] | None = None
    filler: int | None = None  # stands where nothing is written; None: the block began as noise
    verified: CanvasVerified | None = None  # what the latest step's canvas was read as
    causal: NDArray[np.float32] | None = None  # (C,) causal probabilities, NaN where not known; None: not read yet
    causal_kept: NDArray[np.float32] | None = None  # (C,) the same of what stands
    rewrites: int = 0  # of doubtful spans
    kept_rewrites: int = 0  # of these, those that stand
    predicted: Mask | None = None  # (C,) by the latest pass; None where a step predicts all
    rescue_after: int | None = None  # steps that it takes at most before it is rescued; None: it never is
    grows: bool = False  # see ``CanvasState``

    def __post_init__(self) -> None:
        nothing = np.zeros(self.length, dtype=np.bool_)
        self.accepted_mask = self.remelted_mask = self.settled_mask = self.fitting_mask = nothing
        self.agreed_steps = self.accepted_steps = self.remelts = np.zeros(self.length, dtype=np.int32)
        self.kept = np.full(self.length, NEVER, dtype=np.int32)
        if self.filler is not None:
            self.accepted_mask = self.shown != self.filler  # written while the block before was open
            self.kept = np.where(self.accepted_mask, self.shown, NEVER).astype(np.int32)

    @property
    def has_masks(self) -> bool:
        """Whether it is written over masks, a few tokens a pass."""
        return self.filler is not None

    @property
    def is_rescued(self) -> bool:
        """Whether it has not converged, and is written on behind what was kept of it, a token a pass."""
        is_other = self.has_masks or self.round is not None or self.causal is not None
        may_be = self.rescue_after is not None and not is_other
        return may_be and self.steps > (self.rescue_after or 0)

    @property
    def length(self) -> int:
        return len(self.shown)

    @property
    def steps(self) -> int:
        """Denoising steps done."""
        return self.step + 1

    @property
    def committed(self) -> bool:
        return self.text_length is not None

    @property
    def counted(self) -> slice:
        """Positions that enter statistics: all of them, and without the padding once that is known."""
        return slice(0, self.text_length)

    @property
    def accepted_count(self) -> int:
        """Positions accepted at the latest step."""
        return int(self.accepted_mask.sum())

    @property
    def remelted_count(self) -> int:
        """Positions melted at the latest step."""
        return int(self.remelted_mask.sum())

    @property
    def remelt_total(self) -> int:
        """Remelts so far; once committed, those of the text alone."""
        return int(self.remelts[self.counted].sum())

    @property
    def mean_entropy(self) -> float | None:
        """Nats a position predicted at the latest step; once committed, of the text alone. None where there is none."""
        if self.entropy is None:
            return None
        entropy = self.entropy[self.counted]
        if self.predicted is not None:
            entropy = entropy[self.predicted[self.counted]]
        return float(entropy.mean()) if len(entropy) else None

    @property
    def known_entropy(self) -> NDArray[np.float32] | None:
        """(C,) nats, NaN where nothing was predicted yet; None before the first step."""
        if self.entropy is None or self.filler is None:
            return self.entropy
        is_unknown = ~self.accepted_mask & (self.entropy == 0)
        return np.where(is_unknown, np.float32(np.nan), self.entropy)

    def tokens(self, *, calm: bool) -> Tokens:
        """The token shown at every position, (C,)."""
        if not calm or self.committed or self.argmax_canvas is None:
            return self.shown
        return np.where(self.accepted_mask, self.shown, self.argmax_canvas)

    def states(self, *, calm: bool) -> NDArray[np.uint8]:
        """The ``CellState`` of every position, (C,)."""
        guess = CellState.CANDIDATE if calm and self.argmax_canvas is not None else CellState.NOISE
        states = np.full(self.length, guess, dtype=np.uint8)
        if self.filler is not None:
            states[:] = np.where(self.tokens(calm=calm) == self.filler, CellState.MASKED, CellState.CANDIDATE)
        states[self.accepted_mask] = CellState.ACCEPTED
        states[self.settled_mask] = CellState.SETTLED
        states[self.remelted_mask] = CellState.REMELTED
        if self.committed:
            states[:] = CellState.SETTLED
        states[self.pinned_mask] = CellState.GIVEN
        states[self.fitting_mask] = CellState.FITTING
        if self.committed:
            states[self.text_length :] = CellState.PADDING
        return states

    def cell(self, position: int, calm: bool) -> Cell:
        """One position. Raises IndexError outside the canvas."""
        if not 0 <= position < self.length:
            raise IndexError(f"position {position} is outside the canvas of {self.length} tokens")
        entropy = self.known_entropy
        return Cell(
            token=int(self.tokens(calm=calm)[position]),
            state=CellState(int(self.states(calm=calm)[position])),
            entropy=None if entropy is None or np.isnan(entropy[position]) else float(entropy[position]),
            accepted_steps=int(self.accepted_steps[position]),
            remelts=int(self.remelts[position]),
            causal=None if self.causal is None or np.isnan(self.causal[position]) else float(self.causal[position]),
        )

    def partly(self, share: float) -> BlockState:
        """The block while its latest step is being shown: what it newly accepts comes in the order of its entropy.

        ``share`` of these positions, 0 to 1, are there; the others still have the token they had before, not accepted.
        All else that the step did is there at once.
        """
        if share >= 1.0 or self.committed or self.entropy is None:
            return self
        assert self.shown_before is not None
        assert self.kept_before is not None
        assert self.accepted_before is not None
        new = np.flatnonzero(self.accepted_mask & ~self.accepted_before & ~self.pinned_mask)
        new = new[np.argsort(self.entropy[new], kind="stable")]
        coming = np.zeros(self.length, dtype=np.bool_)
        coming[new[int(share * (len(new) + 1)) :]] = True
        part = copy.copy(self)
        part.shown = np.where(coming, self.shown_before, self.shown)
        part.kept = np.where(coming, self.kept_before, self.kept)
        part.accepted_mask, part.settled_mask = self.accepted_mask & ~coming, self.settled_mask & ~coming
        part.accepted_steps = self.accepted_steps - coming
        return part

    def on_the_lines_of(self, outcome: Tokens | None) -> BlockState:
        """The same block, laid out on the lines of a text (T,) that it is known to come to; None: as far as it is."""
        if outcome is None:
            return self
        made = copy.copy(self)
        made.outcome = outcome
        return made

    def fold_step(self, event: StepFinished) -> None:
        """Take in the next denoising step."""
        self._begin_rewrite()
        accepted = event.accepted_mask
        self._fold_predictions(event)
        if self.argmax_canvas is None:
            unchanged = np.zeros(self.length, dtype=np.bool_)
        else:
            unchanged = self.argmax_canvas == event.argmax_canvas
        agreed = np.where(unchanged, self.agreed_steps, 0) + 1
        self.agreed_steps = np.where(accepted, agreed, 0).astype(np.int32)
        self.settled_mask = (self.agreed_steps >= SETTLED_AFTER) & (event.candidates == event.argmax_canvas)
        self.shown_before, self.kept_before, self.accepted_before = self.shown, self.kept, self.accepted_mask
        self.remelted_mask = self.accepted_mask & ~accepted
        self.remelts = self.remelts + self.remelted_mask
        self.accepted_steps = self.accepted_steps + accepted
        self.accepted_mask = accepted
        self.kept = np.where(accepted, event.candidates, self.kept).astype(np.int32)
        self.shown = event.next_canvas  # at accepted positions this is the candidate
        self.argmax_canvas = event.argmax_canvas
        self.temperature = event.temperature
        self.step = event.step
        self.seconds += event.seconds

    def _fold_predictions(self, event: StepFinished) -> None:
        """Take in entropies and top candidates; ``accepted_mask`` is still that of the step before."""
        entropy, tokens, shares = event.entropy, event.top_tokens, event.top_probabilities
        if self.filler is not None:
            here = self.predicted = predicted_by(event.argmax_canvas, self.accepted_mask, self.filler)
            entropy = np.where(here, entropy, 0 if self.entropy is None else self.entropy)
            if tokens is not None and shares is not None:
                old, old_shares = self.top_tokens, self.top_probabilities
                if old is None or old_shares is None or old.shape != tokens.shape:
                    old, old_shares = tokens, np.zeros_like(shares)
                tokens, shares = np.where(here[:, None], tokens, old), np.where(here[:, None], shares, old_shares)
        self.entropy, self.top_tokens, self.top_probabilities = entropy, tokens, shares

    def fold_pins(self, event: PrefixPinned) -> None:
        """Take in the next round: more of the beginning is pinned, and the rest made noise of again."""
        places = np.arange(self.length)
        new = (places < event.pinned) & ~self.pinned_mask
        as_guessed = new if self.argmax_canvas is None else new & (self.argmax_canvas == event.canvas)
        fitting = as_guessed & (np.cumsum(as_guessed) <= event.written)
        self.round = PinnedRound(event.round, event.step, event.pinned, int(new.sum()), event.written)
        self.pinned_mask, self.fitting_mask = self.pinned_mask | new, self.fitting_mask | fitting
        self.accepted_mask = self.pinned_mask
        self.settled_mask = self.remelted_mask = np.zeros(self.length, dtype=np.bool_)
        self.agreed_steps = np.zeros(self.length, dtype=np.int32)
        self.kept = np.where(new, event.canvas, self.kept).astype(np.int32)
        self.shown = event.canvas

    def fold_verified(self, event: CanvasVerified) -> None:
        """Take in what the latest step's canvas was read as."""
        self.verified, self.causal, self.rewrites = event, event.probabilities, event.rewrite
        self.kept_rewrites += event.rewrite > 0 and event.is_kept
        if event.is_kept:
            self.causal_kept = event.probabilities

    def _begin_rewrite(self) -> None:
        """Make noise of what is doubtful; all else stands as it was accepted."""
        if self.verified is None or self.argmax_canvas is None or self.causal_kept is None:
            return
        doubtful, canvas = self.verified.doubtful, self.verified.canvas
        self.argmax_canvas = np.where(doubtful, self.argmax_canvas, canvas)
        self.kept = np.where(doubtful, self.kept, canvas).astype(np.int32)
        self.causal = np.where(doubtful, np.float32(np.nan), self.causal_kept)
        self.agreed_steps = np.where(doubtful, 0, self.agreed_steps).astype(np.int32)
        self.accepted_mask, self.shown, self.verified = ~doubtful, canvas, None

    def fold_commit(self, event: CanvasCommitted) -> None:
        """Take in the end of the block."""
        self.verified, self.causal = None, self.causal_kept
        self.shown = event.tokens
        self.text_length = event.text_length
        self.reason = event.reason
        self.outcome = event.tokens[: event.text_length]
        self.remelted_mask = np.zeros(self.length, dtype=np.bool_)


@dataclass(eq=False)
class CanvasState:
    """All canvases of one run. Folding its events one by one or in any portions gives the same state.

    Its events do not say after how many steps a block is rescued, None where none is, nor whether text that is written
    over masks grows from left to right, so that no block is to be filled.
    """

    rescue_after: int | None = None
    grows: bool = False
    blocks: list[BlockState] = field(default_factory=list)
    finished: GenerationFinished | None = None
    prompt_tokens: int | None = None

    @staticmethod
    def under(config: GenerationConfig) -> CanvasState:
        """The state before a run with these settings."""
        return CanvasState(config.max_denoising_steps if config.rescue else None, config.grows)

    @staticmethod
    def of(events: Iterable[Event], rescue_after: int | None = None) -> CanvasState:
        """The state after these events, which begin a run."""
        state = CanvasState(rescue_after)
        for event in events:
            state.fold(event)
        return state

    def fold(self, event: Event) -> None:
        """Take in the next event of the run.

        Raises:
            ValueError: a step or a commit of a canvas that has not started; the events are not a run's beginning.
        """
        match event:
            case PrefillFinished():
                self.prompt_tokens = event.prompt_tokens
            case CanvasStarted():
                self.blocks.append(
                    BlockState(
                        event.block_index,
                        event.canvas,
                        event.pinned_mask,
                        filler=event.filler,
                        rescue_after=self.rescue_after,
                        grows=self.grows and event.filler is not None,
                    )
                )
            case StepFinished():
                self._developing(event.block_index).fold_step(event)
            case PrefixPinned():
                self._developing(event.block_index).fold_pins(event)
            case CanvasVerified():
                self._developing(event.block_index).fold_verified(event)
            case SlotsRead() if self.blocks:  # else a server told of it without a canvas
                self._developing(event.block_index).read = event
            case CanvasCommitted():
                self._developing(event.block_index).fold_commit(event)
            case GenerationFinished():
                self.finished = event

    @property
    def written(self) -> int:
        """Tokens of text so far, where blocks are written a few tokens at a time."""
        return sum(block.accepted_count if block.text_length is None else block.text_length for block in self.blocks)

    @property
    def current(self) -> BlockState | None:
        """The block being developed, or the last one once all are committed; None before the first."""
        return self.blocks[-1] if self.blocks else None

    def _developing(self, block_index: int) -> BlockState:
        block = self.current
        if block is None or block.block_index != block_index or block.committed:
            raise ValueError(f"an event of block {block_index} came before that canvas started")
        return block

"""Folds a run's events into the state of its canvases. Knows neither Qt, torch nor text: tokens are ids here.

There are two views of a canvas. *Raw* shows the tokens on it, noise included. *Calm* shows accepted tokens as they are,
and the model's best guess (argmax) everywhere else. Every token shown comes from an event.

A block with a filler is written over masks: each step is a pass, accepted tokens are written, and there is no noise.
A written token that a pass replaces by another one is taken back, and accepted at once.

Arrays are replaced and not modified, so ``copy.copy`` of a block is a snapshot.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefixPinned,
    SlotsRead,
    StepFinished,
)
from engine.events import BlockEnd

Tokens = NDArray[np.int32]
Mask = NDArray[np.bool_]

NEVER = -1
"""Stands in place of a token where a position was never accepted."""
SETTLED_AFTER = 2
"""Steps in a row that a position must be accepted with one argmax before it counts as settled."""


class CellState(enum.IntEnum):
    """The state of a position. The numbers index arrays of states."""

    NOISE = 0  # re-noised: a uniform random token
    CANDIDATE = 1  # not accepted; the calm view shows the best guess
    ACCEPTED = 2  # candidate kept at this step
    TAKEN_BACK = 3  # accepted at the step before, re-noised at this one, or over masks replaced
    SETTLED = 4  # accepted with an unchanged argmax for two steps or more, or committed
    GIVEN = 5  # pinned by the user, or forced or chosen by the format that the answer must fit
    PADDING = 6  # behind the block's text, once committed or pinned: end tokens, or what goes on in the next block
    FITTING = 7  # written by the model, and pinned because it fits the format of the answer
    MASKED = 8  # not written yet; the calm view shows the best guess if the pass had one


def predicted_by(argmax: Tokens, shown: Tokens) -> Mask:
    """Returns the positions (C,) that a pass over masks predicted; ``shown`` is the canvas before it."""
    predicted: Mask = argmax != shown
    return predicted


@dataclass(frozen=True)
class Cell:
    """One position as it is shown."""

    token: int
    state: CellState
    entropy: float | None  # nats at the latest step; None before the first
    accepted_steps: int  # steps at which it was accepted
    times_taken_back: int
    causal: float | None = None  # its probability given only the text before it; None if that was not read


@dataclass(frozen=True)
class PinnedRound:
    """One round of pinning: the canvas is read under the answer's format, and the beginning that fits is pinned."""

    number: int  # from 0
    step: int  # the next step
    pinned: int  # positions pinned from here on
    new: int  # newly pinned positions among them
    written: int  # new positions that the model had written; the format forced or chose the others


@dataclass(eq=False)
class BlockState:
    """One canvas of length C, from its noise to its commit.

    A position is SETTLED at a step if it was accepted at this step and at the one before, the argmax there was the
    same at both, and the accepted candidate is that argmax. It is TAKEN_BACK at the one step that undoes an acceptance.
    A pinned position is GIVEN throughout, unless an end token before it turned it into padding. Tokens of the model
    that a round pins are FITTING. Positions that a round re-noises are not accepted any more, but are not TAKEN_BACK.

    A pass over masks predicts only some positions. ``entropy`` and the top candidates are those of the latest pass
    that predicted a position, and stay so once it is written; entropy is 0 where no pass predicted.

    ``causal`` is no event's: a finished text may be read from left to right, see ``Replay.opine``.
    """

    block_index: int
    shown: Tokens  # (C,) what stands on the canvas
    pinned_mask: Mask  # (C,)
    step: int = -1  # the latest finished step
    temperature: float | None = None
    argmax_canvas: Tokens | None = None
    entropy: NDArray[np.float32] | None = None
    accepted_mask: Mask = field(init=False)
    taken_back_mask: Mask = field(init=False)
    settled_mask: Mask = field(init=False)
    agreed_steps: NDArray[np.int32] = field(init=False)  # steps in a row accepted with one argmax
    accepted_steps: NDArray[np.int32] = field(init=False)
    times_taken_back: NDArray[np.int32] = field(init=False)
    kept: Tokens = field(init=False)  # (C,) the latest accepted candidate; NEVER where there is none
    fitting_mask: Mask = field(init=False)  # (C,) pinned positions that the model wrote
    round: PinnedRound | None = None  # the latest
    read: SlotsRead | None = None  # of a decision
    shown_before: Tokens | None = None  # (C,) this and the next two: values before the latest step
    kept_before: Tokens | None = None
    accepted_before: Mask | None = None
    top_tokens: Tokens | None = None  # (C, K) of the latest step, if the run reports them
    top_probabilities: NDArray[np.float32] | None = None
    seconds: float = 0.0  # of all steps
    text_length: int | None = None  # None until committed
    outcome: Tokens | None = None  # (T,) the block's final text if known: once committed, or in a replay
    reason: BlockEnd | None = None
    filler: int | None = None  # token of positions that are not written; None if the block began as noise
    causal: NDArray[np.float32] | None = None  # (C,) causal probabilities, NaN where not known; None: not read
    predicted: Mask | None = None  # (C,) by the latest pass; None if steps predict every position
    grows: bool = False  # see ``CanvasState``
    ends: InitVar[frozenset[int]] = frozenset()  # see ``CanvasState``
    ending_mask: Mask = field(init=False)  # (C,) pinned end tokens behind everything else

    def __post_init__(self, ends: frozenset[int]) -> None:
        nothing = np.zeros(self.length, dtype=np.bool_)
        self.accepted_mask = self.taken_back_mask = self.settled_mask = self.fitting_mask = nothing
        self.agreed_steps = self.accepted_steps = self.times_taken_back = np.zeros(self.length, dtype=np.int32)
        self.kept = np.full(self.length, NEVER, dtype=np.int32)
        is_end = self.pinned_mask & np.isin(self.shown, list(ends))
        self.ending_mask = np.logical_and.accumulate(is_end[::-1])[::-1]
        if self.filler is not None:
            self.accepted_mask = self.shown != self.filler  # written while the previous block was open
            self.kept = np.where(self.accepted_mask, self.shown, NEVER).astype(np.int32)

    @property
    def has_masks(self) -> bool:
        """True if the block is written over masks, a few tokens a pass."""
        return self.filler is not None

    @property
    def length(self) -> int:
        return len(self.shown)

    @property
    def steps(self) -> int:
        """Finished denoising steps."""
        return self.step + 1

    @property
    def committed(self) -> bool:
        return self.text_length is not None

    @property
    def counted(self) -> slice:
        """The positions that enter statistics: all of them, without the padding once that is known."""
        return slice(0, self.text_length)

    @property
    def accepted_count(self) -> int:
        """Positions accepted at the latest step."""
        return int(self.accepted_mask.sum())

    @property
    def taken_back_count(self) -> int:
        """Positions taken back at the latest step."""
        return int(self.taken_back_mask.sum())

    @property
    def taken_back_total(self) -> int:
        """Remelts so far; once committed, those of the text alone."""
        return int(self.times_taken_back[self.counted].sum())

    @property
    def mean_entropy(self) -> float | None:
        """Mean entropy in nats of the positions predicted at the latest step; None if there are none.

        Once committed, padding does not count.
        """
        if self.entropy is None:
            return None
        entropy = self.entropy[self.counted]
        if self.predicted is not None:
            entropy = entropy[self.predicted[self.counted]]
        return float(entropy.mean()) if len(entropy) else None

    @property
    def known_entropy(self) -> NDArray[np.float32] | None:
        """Entropy (C,) in nats, NaN where nothing was predicted yet; None before the first step."""
        if self.entropy is None or self.filler is None:
            return self.entropy
        is_unknown = ~self.accepted_mask & (self.entropy == 0)
        return np.where(is_unknown, np.float32(np.nan), self.entropy)

    def tokens(self, *, calm: bool) -> Tokens:
        """Returns the token shown at every position, (C,)."""
        if not calm or self.committed or self.argmax_canvas is None:
            return self.shown
        return np.where(self.accepted_mask, self.shown, self.argmax_canvas)

    def states(self, *, calm: bool) -> NDArray[np.uint8]:
        """Returns the ``CellState`` of every position, (C,)."""
        guess = CellState.CANDIDATE if calm and self.argmax_canvas is not None else CellState.NOISE
        states = np.full(self.length, guess, dtype=np.uint8)
        if self.filler is not None:
            states[:] = np.where(self.tokens(calm=calm) == self.filler, CellState.MASKED, CellState.CANDIDATE)
        states[self.accepted_mask] = CellState.ACCEPTED
        states[self.settled_mask] = CellState.SETTLED
        states[self.taken_back_mask] = CellState.TAKEN_BACK
        if self.committed:
            states[:] = CellState.SETTLED
        states[self.pinned_mask] = CellState.GIVEN
        states[self.ending_mask] = CellState.PADDING
        states[self.fitting_mask] = CellState.FITTING
        if self.committed:
            states[self.text_length :] = CellState.PADDING
        return states

    def cell(self, position: int, calm: bool) -> Cell:
        """Returns one position as it is shown. Raises IndexError outside the canvas."""
        if not 0 <= position < self.length:
            raise IndexError(f"position {position} is outside the canvas of {self.length} tokens")
        entropy = self.known_entropy
        return Cell(
            token=int(self.tokens(calm=calm)[position]),
            state=CellState(int(self.states(calm=calm)[position])),
            entropy=None if entropy is None or np.isnan(entropy[position]) else float(entropy[position]),
            accepted_steps=int(self.accepted_steps[position]),
            times_taken_back=int(self.times_taken_back[position]),
            causal=None if self.causal is None or np.isnan(self.causal[position]) else float(self.causal[position]),
        )

    def partly(self, share: float) -> BlockState:
        """Returns the block while its latest step is being shown: newly accepted positions appear by rising entropy.

        A ``share`` of these positions, 0 to 1, is shown; the others keep their token from before and are not accepted.
        All other changes of the step are shown at once.
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

    def laid_out_on(self, outcome: Tokens | None) -> BlockState:
        """Returns the block laid out on the lines of its final text (T,); unchanged if ``outcome`` is None."""
        if outcome is None:
            return self
        state = copy.copy(self)
        state.outcome = outcome
        return state

    def fold_step(self, event: StepFinished) -> None:
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
        is_replaced = (self.shown != event.next_canvas) if self.has_masks else np.False_
        self.taken_back_mask = self.accepted_mask & (~accepted | is_replaced)
        self.times_taken_back = self.times_taken_back + self.taken_back_mask
        self.accepted_steps = self.accepted_steps + accepted
        self.accepted_mask = accepted
        self.kept = np.where(accepted, event.candidates, self.kept).astype(np.int32)
        self.shown = event.next_canvas  # at accepted positions this is the candidate
        self.argmax_canvas = event.argmax_canvas
        self.temperature = event.temperature
        self.step = event.step
        self.seconds += event.seconds

    def _fold_predictions(self, event: StepFinished) -> None:
        """Applies a step's entropies and top candidates; ``shown`` is still that of the step before."""
        entropy, tokens, shares = event.entropy, event.top_tokens, event.top_probabilities
        if self.filler is not None:
            here = self.predicted = predicted_by(event.argmax_canvas, self.shown)
            entropy = np.where(here, entropy, 0 if self.entropy is None else self.entropy)
            if tokens is not None and shares is not None:
                old, old_shares = self.top_tokens, self.top_probabilities
                if old is None or old_shares is None or old.shape != tokens.shape:
                    old, old_shares = tokens, np.zeros_like(shares)
                tokens, shares = np.where(here[:, None], tokens, old), np.where(here[:, None], shares, old_shares)
        self.entropy, self.top_tokens, self.top_probabilities = entropy, tokens, shares

    def fold_pins(self, event: PrefixPinned) -> None:
        """Applies the next round: more of the beginning is pinned, and the rest is re-noised."""
        places = np.arange(self.length)
        new = (places < event.pinned) & ~self.pinned_mask
        as_guessed = new if self.argmax_canvas is None else new & (self.argmax_canvas == event.canvas)
        fitting = as_guessed & (np.cumsum(as_guessed) <= event.written)
        self.round = PinnedRound(event.round, event.step, event.pinned, int(new.sum()), event.written)
        self.pinned_mask, self.fitting_mask = self.pinned_mask | new, self.fitting_mask | fitting
        self.accepted_mask = self.pinned_mask
        self.settled_mask = self.taken_back_mask = np.zeros(self.length, dtype=np.bool_)
        self.agreed_steps = np.zeros(self.length, dtype=np.int32)
        self.kept = np.where(new, event.canvas, self.kept).astype(np.int32)
        self.shown = event.canvas

    def fold_commit(self, event: CanvasCommitted) -> None:
        self.shown = event.tokens
        self.text_length = event.text_length
        self.reason = event.reason
        self.outcome = event.tokens[: event.text_length]
        self.taken_back_mask = np.zeros(self.length, dtype=np.bool_)


@dataclass(eq=False)
class CanvasState:
    """All canvases of one run. Folding its events one by one or in any portions gives the same state.

    Two fields come from the run's settings, as events do not carry them: ``grows``, True if text written over masks
    grows from left to right, and ``ends``, the tokens that end a text.
    """

    grows: bool = False
    ends: frozenset[int] = frozenset()
    blocks: list[BlockState] = field(default_factory=list)
    finished: GenerationFinished | None = None

    @staticmethod
    def under(config: GenerationConfig) -> CanvasState:
        """Returns the state before a run with these settings."""
        return CanvasState(config.grows, frozenset(config.eos_token_ids))

    @staticmethod
    def from_events(events: Iterable[Event]) -> CanvasState:
        """Returns the state after these events, which start with a run's first event."""
        state = CanvasState()
        for event in events:
            state.fold(event)
        return state

    def fold(self, event: Event) -> None:
        """Applies the next event of the run.

        Raises:
            ValueError: a step or a commit of a canvas that has not started; the events are not a run's beginning.
        """
        match event:
            case CanvasStarted():
                self.blocks.append(
                    BlockState(
                        event.block_index,
                        event.canvas,
                        event.pinned_mask,
                        filler=event.filler,
                        grows=self.grows and event.filler is not None,
                        ends=self.ends,
                    )
                )
            case StepFinished():
                self._developing(event.block_index).fold_step(event)
            case PrefixPinned():
                self._developing(event.block_index).fold_pins(event)
            case SlotsRead() if self.blocks:  # a remote server reports reads without a canvas
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

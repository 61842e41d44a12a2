"""The figures of every block of a run, small enough to keep in memory for all blocks. Without painting.

They are computed block by block in idle time, so that a long run is shown at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal, Slot

from app.player.player import Player
from app.state.run.canvas import CellState, PinnedRound
from app.state.run.replay import NOISE, BlockRecord, Floats
from app.state.run.settling import BlockOrder, RunOrder, block_order
from app.system.timers import later

IDLE_MS = 30  # pause after the last move before more is read
PLAYING_MS = 500  # interval at which to check if playing has ended
LIVE_MS = 300  # interval between two readings of a block that is still growing
AT_ONCE = 50_000  # most steps × positions computed without a pause; an ordinary block has a quarter of that
BURST_SHARE = 0.04
"""A remelt burst is a step that remelts at least this share of the counted positions, and at least two."""


@dataclass(frozen=True, eq=False)
class BlockFigures:
    """The figures of one block of S steps and C positions. Padding is not counted."""

    index: int
    steps: int
    committed: bool
    reason: str
    counted: int  # positions
    mean_entropy: Floats  # (S,) nats
    accepted: NDArray[np.int64]  # (S,)
    changes: NDArray[np.int64]  # (S,)
    remelts: NDArray[np.int64]  # (S,)
    temperature: Floats  # (S,)
    states: NDArray[np.uint8]  # (C,) calm states in the last frame
    settled_at: NDArray[np.int32]  # (C,)
    kl_to_previous: Floats | None  # (S,) nats
    kl_to_final: Floats | None  # (S,) nats
    order: BlockOrder
    rounds: tuple[PinnedRound, ...] = ()  # only for runs under a format
    has_masks: bool = False  # see ``BlockRecord``
    grows: bool = False  # see ``BlockState``

    @property
    def bursts(self) -> NDArray[np.int64]:
        """The steps that remelt many positions at once."""
        return np.flatnonzero(self.remelts >= max(2, BURST_SHARE * self.counted))

    @property
    def stopped_early(self) -> bool:
        """True if the block was committed because it converged, before the cap on steps."""
        return self.reason == "converged" and not self.has_masks


def figures_of(record: BlockRecord) -> BlockFigures:
    last = record.snapshots[-1]
    return BlockFigures(
        index=record.index,
        steps=record.steps,
        committed=record.final is not None,
        reason=record.reason,
        counted=len(range(record.length)[record.counted]),
        mean_entropy=record.mean_entropy,
        accepted=record.accepted_counts,
        changes=record.change_counts,
        remelts=record.remelt_counts,
        temperature=record.temperature,
        states=last.states(calm=True),
        settled_at=record.settled_at,
        kl_to_previous=record.kl_to_previous,
        kl_to_final=record.kl_to_final,
        order=block_order(record),
        rounds=record.rounds,
        has_masks=record.has_masks,
        grows=last.grows,
    )


def state_counts(figures: BlockFigures) -> dict[CellState, int]:
    """Returns the number of positions in each state in the last frame."""
    states, counts = np.unique(figures.states, return_counts=True)
    return {CellState(int(state)): int(count) for state, count in zip(states, counts, strict=True)}


class Overview(QObject):
    """The figures block by block, nearest to the current block first. ``known`` reports a block with new figures."""

    known = Signal(int)

    def __init__(self, player: Player, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._player = player
        self._figures: dict[int, BlockFigures] = {}
        self._made_of: dict[int, tuple[int, bool]] = {}  # steps, and True if committed, when the figures were computed
        self._reading: Iterator[None] = iter(())  # the block being computed
        self.steps: list[int] = []  # number of steps of each block; known at once
        self._order: RunOrder | None = None
        self._timer = later(self, self._work)
        player.opened.connect(self._on_opened)
        player.grown.connect(self._on_grown)
        player.placed.connect(self._on_placed)

    def __getitem__(self, block: int) -> BlockFigures | None:
        """Returns a block's figures; None if they are not computed yet."""
        return self._figures.get(block)

    @property
    def complete(self) -> bool:
        return len(self._figures) == len(self.steps)

    @property
    def order(self) -> RunOrder | None:
        """The order in which the run settled; None until all blocks are computed."""
        if self._order is None and self.complete:
            blocks = [self._figures[block].order for block in range(len(self.steps))]
            self._order = RunOrder(blocks, self._player.piece)
        return self._order

    def finish(self) -> None:
        """Computes all missing figures now."""
        for _ in self._reading:
            pass
        while (block := self._wanted()) is not None:
            for _ in self._read(block):
                pass

    @Slot()
    def _on_opened(self) -> None:
        self._figures.clear()
        self._made_of.clear()
        self._order = None
        self._reading = iter(())
        self._count()
        self._later(0)

    @Slot()
    def _on_grown(self) -> None:
        before = len(self.steps)
        self._order = None
        self._count()
        self._later(0 if len(self.steps) != before else LIVE_MS)

    @Slot()
    def _on_placed(self) -> None:
        if self._timer.isActive() and self._wanted() is not None:
            self._later(IDLE_MS, again=True)

    def _count(self) -> None:
        self.steps = []
        replay = self._player.replay
        if replay is None:
            return
        for frame in replay.frames:
            if frame.step == NOISE:
                self.steps.append(0)
            else:
                self.steps[frame.block] = frame.step + 1
        for block in range(len(self.steps)):
            if replay.committed(block):  # the commit has its own frame after the last step
                self.steps[block] -= 1

    def _wanted(self) -> int | None:
        replay = self._player.replay
        if replay is None or not self.steps:
            return None
        frame = self._player.frame
        here = 0 if frame is None else frame.block
        order = sorted(range(len(self.steps)), key=lambda block: abs(block - here))
        return next((block for block in order if not self._is_current(block)), None)

    def _is_current(self, block: int) -> bool:
        replay = self._player.replay
        assert replay is not None
        return self._made_of.get(block) == (self.steps[block], replay.committed(block))

    def _later(self, milliseconds: int, *, again: bool = False) -> None:
        if again or not self._timer.isActive() or self._timer.remainingTime() > milliseconds:
            self._timer.start(milliseconds)

    def _read(self, block: int) -> Iterator[None]:
        """Computes a block's figures. Yields between the parts of a long block, so that each call is short."""
        replay = self._player.replay
        assert replay is not None
        made_of = (self.steps[block], replay.committed(block))
        record = replay.peek(block)
        if record.steps * record.length > AT_ONCE:
            yield
            _ = record.kl_to_previous  # cached by the record
            yield
            _ = record.kl_to_final
            yield
        self._made_of[block] = made_of
        self._figures[block] = figures_of(record)
        self._order = None
        self.known.emit(block)

    @Slot()
    def _work(self) -> None:
        if self._goes_on():
            self._later(0)
            return
        block, frame = self._wanted(), self._player.frame
        if block is None:
            return
        if self._player.is_playing and frame is not None and block != frame.block:
            self._later(PLAYING_MS)  # computing a block takes longer than a frame
            return
        self._reading = self._read(block)
        if self._goes_on() or self._wanted() is not None:
            self._later(0)

    def _goes_on(self) -> bool:
        """Computes the next part of the current block. Returns True if more parts may follow."""
        return next(self._reading, True) is None

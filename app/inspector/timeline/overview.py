"""The figures of every block of a run, small enough to keep in memory for all blocks. Without painting.

They are computed block by block in idle time, so that a long run is shown at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal, Slot

from app.player.player import Player
from app.state.run.replay import NOISE, BlockRecord
from app.state.run.story import Doubt, doubts_of
from app.system.timers import later

IDLE_MS = 30  # pause after the last move before more is read
PLAYING_MS = 500  # interval at which to check if playing has ended
LIVE_MS = 300  # interval between two readings of a block that is still growing

BURST_SHARE = 0.04
"""A burst is a step that takes back at least this share of the counted positions, and at least two."""


@dataclass(frozen=True, eq=False)
class BlockFigures:
    """The figures of one block of S steps. Padding is not counted."""

    steps: int
    reason: str
    counted: int  # positions
    taken_back: NDArray[np.int64]  # (S,)
    doubts: tuple[Doubt, ...]
    rounds: frozenset[int]  # the steps at which one begins; only for runs under a format
    has_masks: bool  # see ``BlockRecord``

    @property
    def bursts(self) -> NDArray[np.int64]:
        """The steps that take back many positions at once."""
        return np.flatnonzero(self.taken_back >= max(2, BURST_SHARE * self.counted))

    @property
    def stopped_early(self) -> bool:
        """True if the block was committed because it converged, before the cap on steps."""
        return self.reason == "converged" and not self.has_masks


def figures_of(record: BlockRecord) -> BlockFigures:
    return BlockFigures(
        steps=record.steps,
        reason=record.reason,
        counted=len(range(record.length)[record.counted]),
        taken_back=record.taken_back_counts,
        doubts=doubts_of(record),
        rounds=frozenset(one.step for one in record.rounds),
        has_masks=record.has_masks,
    )


class Overview(QObject):
    """The figures block by block, nearest to the current block first. ``known`` reports a block with new figures."""

    known = Signal(int)

    def __init__(self, player: Player, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._player = player
        self._figures: dict[int, BlockFigures] = {}
        self._made_of: dict[int, tuple[int, bool]] = {}  # steps, and True if committed, when the figures were computed
        self.steps: list[int] = []  # number of steps of each block; known at once
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
    def doubts(self) -> list[Doubt]:
        """The doubts of all computed blocks, in reading order."""
        return [doubt for block in sorted(self._figures) for doubt in self._figures[block].doubts]

    @property
    def is_written(self) -> bool:
        """True if every token of the run was written permanently, so that none was left in doubt."""
        return bool(self._figures) and all(figures.has_masks for figures in self._figures.values())

    def finish(self) -> None:
        """Computes all missing figures now."""
        while (block := self._wanted()) is not None:
            self._read(block)

    @Slot()
    def _on_opened(self) -> None:
        self._figures.clear()
        self._made_of.clear()
        self._count()
        self._later(0)

    @Slot()
    def _on_grown(self) -> None:
        before = len(self.steps)
        self._count()
        self._later(0 if len(self.steps) != before else LIVE_MS)

    @Slot()
    def _on_placed(self) -> None:
        if self._timer.isActive() and self._wanted() is not None:
            self._timer.start(IDLE_MS)

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
        made_of, steps = self._made_of, self.steps
        return next((one for one in order if made_of.get(one) != (steps[one], replay.committed(one))), None)

    def _later(self, milliseconds: int) -> None:
        if not self._timer.isActive() or self._timer.remainingTime() > milliseconds:
            self._timer.start(milliseconds)

    def _read(self, block: int) -> None:
        replay = self._player.replay
        assert replay is not None
        self._made_of[block] = self.steps[block], replay.committed(block)
        self._figures[block] = figures_of(replay.peek(block))
        self.known.emit(block)

    @Slot()
    def _work(self) -> None:
        block, frame = self._wanted(), self._player.frame
        if block is None:
            return
        if self._player.is_playing and frame is not None and block != frame.block:
            self._later(PLAYING_MS)  # computing a block takes longer than a frame
            return
        self._read(block)
        if self._wanted() is not None:
            self._later(0)

"""The shown run, its frame and its selected cell, which all views of the run share. Knows no widgets.

Plays recorded frames in order, at the pace of a live run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

from PySide6.QtCore import QObject, Signal, Slot

from app.board.words import cell_name
from app.design import motion
from app.state.run.canvas import BlockState
from app.state.run.pace import FULL_SPEED, NOISE_SECONDS, SpeedClock, frame_seconds
from app.state.run.replay import NOISE, BlockRecord, Frame, Replay
from app.state.sudoku.placing import Placed, placed
from app.system.timers import every
from engine import Recording

TICK_MS = 33  # between two updates while it plays
SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
NOTHING = -1
AFTER_NOISE = 1  # place of a run's first step


class Player(QObject):
    """Plays one trace. Without a ``trace`` there is no ``replay``, and it does not move."""

    opened = Signal()  # another trace, or none
    grown = Signal()  # a live run has added frames
    placed = Signal(int)  # the shown frame
    revealed = Signal()  # another share of the frame is shown
    selected = Signal(int)  # the position whose history is shown; -1 for none
    hovered = Signal(int)  # the position under the pointer in any view; -1 for none
    playing_changed = Signal(bool)
    speed_changed = Signal(float)
    board_changed = Signal(bool)  # True if a Sudoku is shown as a board

    def __init__(self, parent: QObject | None = None, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self.trace: Recording | None = None
        self.replay: Replay | None = None
        self.place = 0
        self.share = 1.0  # shown part of the tokens that the shown step accepts
        self.selection = NOTHING
        self.hover = NOTHING
        self.board = True
        self.calm = False  # best guesses in place of noise; changes of a cell are those in this view
        # The sudoku of the block that was last searched.
        self._search = lru_cache(1)(lambda trace, record: placed(trace.prompt, record.snapshots[-1], trace.piece))
        self._clock = SpeedClock(now)
        self._since = 0.0  # the clock's time when the shown frame appeared, while it plays
        self._timer = every(self, self._tick)

    def open(self, trace: Recording | None, place: int | None = None, replay: Replay | None = None) -> None:
        """Shows a trace at its last frame or at ``place``, -1 for its first step; None closes the open one.

        ``replay`` is the trace's replay if it already exists.
        """
        self.pause()
        self.trace = trace
        self.replay = None if trace is None else replay or Replay(trace)
        wanted = self._last if place is None else AFTER_NOISE if place < 0 else place
        self.place = min(wanted, self._last)
        self.share = 1.0
        self.selection = self.hover = NOTHING
        self.opened.emit()
        self.placed.emit(self.place)
        self.selected.emit(NOTHING)

    def refresh(self, share: float = 1.0) -> None:
        """Adds new frames of a live run; if the last frame was shown, the new last one is shown with this ``share``."""
        if self.replay is None:
            return
        before = len(self.replay.frames)
        at_end = self.place >= before - 1
        self.replay.refresh()
        last = len(self.replay.frames) - 1
        if last >= before:
            self.grown.emit()
        if at_end and last >= 0 and not self.is_playing:
            if not before:  # the first frame has the place of the empty state, so force a change
                self.place = NOTHING
            self.show_frame(last, share)

    def show_frame(self, place: int, share: float = 1.0) -> None:
        """Shows an existing frame, with this share of the tokens that its step accepts."""
        is_other, is_more = place != self.place, share != self.share
        self.place, self.share = place, share
        if is_other:
            self.placed.emit(place)
        elif is_more:
            self.revealed.emit()

    @property
    def frame(self) -> Frame | None:
        return self.replay.frames[self.place] if self.replay is not None and self.replay.frames else None

    @property
    def block(self) -> BlockRecord | None:
        """The block of the shown frame, over all its steps."""
        frame = self.frame
        return None if frame is None or self.replay is None else self.replay.record(frame.block)

    @property
    def snapshot(self) -> BlockState | None:
        """The state of the canvas at the shown frame."""
        return None if self.frame is None or self.replay is None else self.replay.snapshot(self.place)

    @property
    def shown(self) -> BlockState | None:
        """The shown part of ``snapshot``: of a step that is just appearing, a share."""
        snapshot = self.snapshot
        return None if snapshot is None else snapshot.partly(self.share)

    @property
    def sudoku(self) -> Placed | None:
        """The Sudoku that the block of the shown frame writes; None if it writes none."""
        record = self.block
        return None if self.trace is None or record is None else self._search(self.trace, record)

    def name_of(self, position: int) -> str:
        """Returns the name of a cell of this block: its row and column in a Sudoku, else its position."""
        return cell_name(position, self.sudoku)

    def piece(self, token: int) -> str:
        return "" if self.trace is None else self.trace.piece(token)

    def is_special(self, token: int) -> bool:
        return self.trace is not None and self.trace.is_special(token)

    @Slot(int)
    def go(self, place: int) -> None:
        """Shows a frame; the place is clamped to the run."""
        if self.replay is None or not self.replay.frames:
            return
        self.show_frame(max(0, min(place, len(self.replay.frames) - 1)))

    def step(self, by: int) -> None:
        """Moves by frames, back with a negative number."""
        self.pause()
        self.go(self.place + by)

    def go_to_block(self, block: int) -> None:
        """Shows the last frame of a block."""
        if self.replay is not None and 0 <= block < self.replay.blocks:
            after = self.replay.first_of(block + 1) if block + 1 < self.replay.blocks else len(self.replay.frames)
            self.go(after - 1)

    def next_change(self, direction: int) -> bool:
        """Moves to the nearest frame with another token or state in the selected cell; False if there is none."""
        if self.replay is None or self.selection == NOTHING:
            return False
        place = self.replay.next_change(self.place, self.selection, direction, calm=self.calm)
        if place is None:
            return False
        self.pause()
        self.go(place)
        return True

    @Slot(int)
    def select(self, position: int) -> None:
        """Selects the position whose history is shown; -1 for none."""
        if position != self.selection:
            self.selection = position
            self.selected.emit(position)

    @Slot(int)
    def point(self, position: int) -> None:
        """Notes the position under the pointer in any view; -1 for none."""
        if position != self.hover:
            self.hover = position
            self.hovered.emit(position)

    @property
    def is_playing(self) -> bool:
        return self._timer.isActive()

    @property
    def speed(self) -> float:
        """The playing speed; 1 is normal."""
        return self._clock.speed

    @Slot()
    def toggle(self) -> None:
        """Plays or pauses; at the end it plays from the beginning."""
        if self.is_playing:
            self.pause()
        else:
            self.play()

    def play(self) -> None:
        """Plays; at the end from the beginning."""
        if self.replay is None or not self.replay.frames or self.is_playing:
            return
        self._since = self._clock.time
        if self.place == self._last:
            self.go(0)
        elif self.place:  # the shown frame has been seen, so the next one comes at once
            self._since -= self._seconds(self.place)
        self._timer.start(TICK_MS)
        self.playing_changed.emit(True)

    @Slot()
    def pause(self) -> None:
        if self.is_playing:
            self._timer.stop()
            self.show_frame(self.place)
            self.playing_changed.emit(False)

    def set_speed(self, speed: float) -> None:
        """Sets the speed, 0.1 to 4, or ``FULL_SPEED`` for one frame a tick."""
        self._clock.speed = speed if speed == FULL_SPEED else max(SPEEDS[0], min(speed, SPEEDS[-1]))
        self.speed_changed.emit(self.speed)

    @Slot(bool)
    def set_board(self, board: bool) -> None:
        self.board = board
        self.board_changed.emit(board)

    @property
    def _last(self) -> int:
        """The place of the last frame; 0 if there is none."""
        return 0 if self.replay is None else max(0, len(self.replay.frames) - 1)

    def _seconds(self, place: int) -> float:
        """Returns the seconds for which a frame is shown at 1×."""
        if self.replay is None:
            return 0.0
        frame = self.replay.frames[place]
        return frame_seconds(frame.step, self.replay.steps_of(frame.block)) or NOISE_SECONDS  # the latter for a commit

    @Slot()
    def _tick(self) -> None:
        """Moves by as many frames as are due, or shows more of the current one."""
        now, place = self._clock.time, self.place
        is_full = self.speed == FULL_SPEED
        while is_full or now - self._since >= self._seconds(place):
            self._since += self._seconds(place)
            place += 1
            if place > self._last:  # the last frame was shown long enough
                self.go(self._last)
                self.pause()
                return
            if is_full:
                break
        is_revealed = not motion.is_reduced() and not is_full and self._is_step(place)
        self.show_frame(place, (now - self._since) / self._seconds(place) if is_revealed else 1.0)

    def _is_step(self, place: int) -> bool:
        """True if a frame is a step, and not noise or a commit."""
        frame = None if self.replay is None else self.replay.frames[place]
        return frame is not None and self.replay is not None and NOISE < frame.step < self.replay.steps_of(frame.block)

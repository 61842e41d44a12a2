"""Which run is looked at, at which frame, and which cell of it: what all views of it share.

Plays real frames one after the other, at the pace at which a run is shown live. Knows no widget.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.design import motion
from app.state.run.canvas import BlockState
from app.state.run.pace import FULL_SPEED, NOISE_SECONDS, SpeedClock, frame_seconds
from app.state.run.replay import NOISE, BlockRecord, Frame, Replay
from engine import Recording

TICK_MS = 33  # between two looks at what is due while it plays
SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
NOTHING = -1


class Player(QObject):
    """Without a ``trace`` there is no ``replay``, and nothing moves."""

    opened = Signal()  # another trace, or none
    grown = Signal()  # a live run has added frames
    placed = Signal(int)  # the frame on show
    revealed = Signal()  # another share of the frame is on show
    selected = Signal(int)  # the position whose history is on show; -1 for none
    hovered = Signal(int)  # the position under the pointer, in any view; -1 for none
    playing_changed = Signal(bool)
    speed_changed = Signal(float)
    loop_changed = Signal(bool)
    board_changed = Signal(bool)  # whether a Sudoku is shown as a board

    def __init__(self, parent: QObject | None = None, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self.trace: Recording | None = None
        self.replay: Replay | None = None
        self.place = 0
        self.share = 1.0  # of what the step on show accepts, that is on show already
        self.selection = NOTHING
        self.hover = NOTHING
        self.loop = False
        self.board = True
        self.calm = True  # which view decides what counts as a change of a cell
        self.direction = 1  # of playing; -1 goes backwards
        self._clock = SpeedClock(now)
        self._since = 0.0  # the clock's time when the frame on show came, while it plays
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._tick)

    # ---------------------------------------------------------------- what is looked at

    def open(self, trace: Recording | None, place: int | None = None, replay: Replay | None = None) -> None:
        """Look at a trace, at its last frame or at ``place``; None closes the one that is open.

        ``replay`` is of that trace, where one has been made already.
        """
        self.pause()
        self.trace = trace
        self.replay = None if trace is None else replay or Replay(trace)
        self.place = self._last if place is None else max(0, min(place, self._last))
        self.share = 1.0
        self.selection = self.hover = NOTHING
        self.opened.emit()
        self.placed.emit(self.place)
        self.selected.emit(NOTHING)

    def refresh(self, share: float = 1.0) -> None:
        """A live run went on; who looked at its end goes along. Of its latest step this share is to be shown."""
        if self.replay is None:
            return
        before = len(self.replay.frames)
        at_end = self.place >= before - 1
        self.replay.refresh()
        last = len(self.replay.frames) - 1
        if last >= before:
            self.grown.emit()
        if at_end and last >= 0 and not self.is_playing:
            if not before:  # there was nothing to be at; now there is, maybe at the same place
                self.place = NOTHING
            self.show_frame(last, share)

    def show_frame(self, place: int, share: float = 1.0) -> None:
        """Show a frame, which there is, or this share of what its step accepts."""
        is_other, is_more = place != self.place, share != self.share
        self.place, self.share = place, share
        if is_other:
            self.placed.emit(place)
        elif is_more:
            self.revealed.emit()

    @property
    def frame(self) -> Frame | None:
        """The frame on show."""
        if self.replay is None or not self.replay.frames:
            return None
        return self.replay.frames[self.place]

    @property
    def block(self) -> BlockRecord | None:
        """The block of the frame on show, over all its steps."""
        frame = self.frame
        return None if frame is None or self.replay is None else self.replay.record(frame.block)

    @property
    def snapshot(self) -> BlockState | None:
        """The canvas as it was at the frame on show."""
        return None if self.frame is None or self.replay is None else self.replay.snapshot(self.place)

    @property
    def shown(self) -> BlockState | None:
        """As much of ``snapshot`` as is on show: of a step that is just being shown, a share."""
        snapshot = self.snapshot
        return None if snapshot is None else snapshot.partly(self.share)

    def piece(self, token: int) -> str:
        """How a token is written."""
        return "" if self.trace is None else self.trace.piece(token)

    def is_special(self, token: int) -> bool:
        """Whether a token is a control token."""
        return self.trace is not None and self.trace.is_special(token)

    # ---------------------------------------------------------------- going about

    @Slot(int)
    def go(self, place: int) -> None:
        """Show a frame; beyond the ends takes the end."""
        if self.replay is None or not self.replay.frames:
            return
        self.show_frame(max(0, min(place, len(self.replay.frames) - 1)))

    def step(self, by: int) -> None:
        """Go on by frames, back with a negative number."""
        self.pause()
        self.go(self.place + by)

    def go_to_block(self, block: int) -> None:
        """Show the last frame of a block."""
        if self.replay is not None and 0 <= block < self.replay.blocks:
            after = self.replay.first_of(block + 1) if block + 1 < self.replay.blocks else len(self.replay.frames)
            self.go(after - 1)

    def next_change(self, direction: int) -> bool:
        """Go to the nearest frame where the selected cell shows something else; False where there is none."""
        if self.replay is None or self.selection == NOTHING:
            return False
        found = self.replay.next_change(self.place, self.selection, direction, calm=self.calm)
        if found is None:
            return False
        self.pause()
        self.go(found)
        return True

    @Slot(int)
    def select(self, position: int) -> None:
        """Show the history of a position; -1 of none."""
        if position != self.selection:
            self.selection = position
            self.selected.emit(position)

    @Slot(int)
    def point(self, position: int) -> None:
        """The pointer is over a position, in whichever view; -1 over none."""
        if position != self.hover:
            self.hover = position
            self.hovered.emit(position)

    # ---------------------------------------------------------------- playing

    @property
    def is_playing(self) -> bool:
        return self._timer.isActive()

    @property
    def speed(self) -> float:
        """Frames come this many times as fast as usual."""
        return self._clock.speed

    @Slot()
    def toggle(self) -> None:
        """Play or pause; at the end from the beginning."""
        if self.is_playing:
            self.pause()
        else:
            self.play(1)

    def play(self, direction: int) -> None:
        """Play forwards (1) or backwards (-1); from the other end where there is nothing left. Again for faster."""
        if self.replay is None or not self.replay.frames:
            return
        if self.is_playing and direction == self.direction:
            self.set_speed(next((speed for speed in SPEEDS if speed > self.speed), SPEEDS[-1]))
            return
        self.direction = direction
        first, last = (0, self._last) if direction > 0 else (self._last, 0)
        self._since = self._clock.time
        if self.place == last:
            self.go(first)
        elif self.place != first:  # what is on show has been looked at
            self._since -= self._seconds(self.place)
        was_playing = self.is_playing
        self._timer.start(TICK_MS)
        if not was_playing:
            self.playing_changed.emit(True)

    @Slot()
    def pause(self) -> None:
        if self.is_playing:
            self._timer.stop()
            self.show_frame(self.place)
            self.playing_changed.emit(False)

    def set_speed(self, speed: float) -> None:
        """Play this many times as fast, 0.1 to 4, or at ``FULL_SPEED`` a frame a tick."""
        self._clock.speed = speed if speed == FULL_SPEED else max(SPEEDS[0], min(speed, SPEEDS[-1]))
        self.speed_changed.emit(self.speed)

    def set_loop(self, loop: bool) -> None:
        """Begin again at the end, or stop there."""
        self.loop = loop
        self.loop_changed.emit(loop)

    @Slot(bool)
    def set_board(self, board: bool) -> None:
        """Show a Sudoku as a board, or as the tokens that it is written in."""
        self.board = board
        self.board_changed.emit(board)

    @property
    def _last(self) -> int:
        """The place of the last frame; 0 where there is none."""
        return 0 if self.replay is None else max(0, len(self.replay.frames) - 1)

    def _seconds(self, place: int) -> float:
        """How long a frame is shown at 1×."""
        if self.replay is None:
            return 0.0
        frame = self.replay.frames[place]
        return frame_seconds(frame.step, self.replay.steps_of(frame.block)) or NOISE_SECONDS  # the commit as the noise

    @Slot()
    def _tick(self) -> None:
        """Go on by as many frames as are due, or show more of the one that is on show."""
        now, place = self._clock.time, self.place
        is_full = self.speed == FULL_SPEED
        while is_full or now - self._since >= self._seconds(place):
            self._since += self._seconds(place)
            place += self.direction
            if not 0 <= place <= self._last:
                self._turn_round()
                return
            if is_full:
                break
        is_revealed = self.direction > 0 and not motion.is_reduced() and not is_full and self._is_step(place)
        self.show_frame(place, (now - self._since) / self._seconds(place) if is_revealed else 1.0)

    def _is_step(self, place: int) -> bool:
        """Whether a frame is a step, rather than noise or a commit."""
        frame = None if self.replay is None else self.replay.frames[place]
        return frame is not None and self.replay is not None and NOISE < frame.step < self.replay.steps_of(frame.block)

    def _turn_round(self) -> None:
        """The last frame was shown long enough."""
        self.go(self._last if self.direction > 0 else 0)
        if self.loop:
            self._since = self._clock.time
            self.go(0 if self.direction > 0 else self._last)
        else:
            self.pause()

"""Which run is looked at, at which frame, and which cell of it: what all views of the inspector share.

Plays real frames one after the other; nothing is tweened. Knows no widget.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.state.run.canvas import BlockState
from app.state.run.replay import BlockRecord, Frame, Replay
from engine import Recording

FRAME_MS = 200  # between two frames at 1×
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

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.trace: Recording | None = None
        self.replay: Replay | None = None
        self.place = 0
        self.share = 1.0  # of what the step on show accepts, that is on show already
        self.selection = NOTHING
        self.hover = NOTHING
        self.speed = 1.0
        self.loop = False
        self.board = True
        self.calm = True  # which view decides what counts as a change of a cell
        self.direction = 1  # of playing; -1 goes backwards
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._tick)

    # ---------------------------------------------------------------- what is looked at

    def open(self, trace: Recording | None, place: int | None = None) -> None:
        """Look at a trace, at its last frame or at ``place``; None closes the one that is open."""
        self.pause()
        self.trace = trace
        self.replay = None if trace is None else Replay(trace)
        last = 0 if self.replay is None else max(0, len(self.replay.frames) - 1)
        self.place = last if place is None else max(0, min(place, last))
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
            self._show(last, share, is_new=last >= before)

    def _show(self, place: int, share: float = 1.0, *, is_new: bool = False) -> None:
        is_new = is_new or place != self.place
        is_other = share != self.share
        self.place, self.share = place, share
        if is_new:
            self.placed.emit(place)
        elif is_other:
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
        self._show(max(0, min(place, len(self.replay.frames) - 1)))

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
        last = len(self.replay.frames) - 1
        if direction > 0 and self.place >= last:
            self.go(0)
        elif direction < 0 and self.place <= 0:
            self.go(last)
        was_playing = self.is_playing
        self._timer.start(round(FRAME_MS / self.speed))
        if not was_playing:
            self.playing_changed.emit(True)

    @Slot()
    def pause(self) -> None:
        if self.is_playing:
            self._timer.stop()
            self.playing_changed.emit(False)

    def set_speed(self, speed: float) -> None:
        """Frames come this many times as fast, 0.1 to 4."""
        self.speed = max(SPEEDS[0], min(speed, SPEEDS[-1]))
        if self.is_playing:
            self._timer.start(round(FRAME_MS / self.speed))
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

    @Slot()
    def _tick(self) -> None:
        last = 0 if self.replay is None else len(self.replay.frames) - 1
        if 0 <= self.place + self.direction <= last:
            self.go(self.place + self.direction)
        elif self.loop:
            self.go(0 if self.direction > 0 else last)
        else:
            self.pause()

"""The board widget, in which a puzzle is entered or a run is shown: live, and at any frame afterwards."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject, QRect, Signal, Slot
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragMoveEvent,
    QDropEvent,
    QGuiApplication,
    QKeyEvent,
    QPainter,
)
from PySide6.QtWidgets import QWidget

from app.board.paint import paint_invitation
from app.board.view import FrameView, digit_of, edit_of, place_of
from app.bridge.engine_thread import RunHandle
from app.design import themes
from app.design.drops import accept_drag, has_picture, local_files, take_drop
from app.player.player import Player
from app.state.sudoku.board import BLANK, EMPTY, Board, BoardEntry
from app.state.sudoku.placing import board_in
from app.state.sudoku.solve_frame import SolveFrame, entered, frame
from app.sudoku.words import RunCost, result_text
from app.system.i18n import tr
from app.system.timers import later
from engine import Recording


class BoardView(FrameView):
    """A square board, centred in its space. While a run is shown, the puzzle is kept underneath."""

    changed = Signal(object)  # the entered Board, after every change
    refused = Signal(str)  # why the pasted content is no puzzle, as a sentence
    pictured = Signal(object)  # a pasted or dropped picture: its path, or a QImage
    replaced = Signal()  # by another puzzle; a change of one cell does not count
    doubts_changed = Signal()

    def __init__(self, parent: QWidget | None = None, first: Board = EMPTY) -> None:
        """``first`` is the initial puzzle; it is not part of the undo history."""
        super().__init__(parent)
        self.entry = BoardEntry(first)  # the puzzle with its cursor and its history
        self._selected = self.entry.cursor
        self._entered = entered(self.entry.board.cells)
        self._read_only = False
        self.setAcceptDrops(True)
        self._describe()

    @property
    def board(self) -> Board:
        return self.entry.board

    @property
    def shown(self) -> SolveFrame:
        """The painted frame: the run's, or else the entered puzzle's."""
        return self._entered if self.frame is None else self.frame

    @property
    def is_read_only(self) -> bool:
        """True if no digits can be entered now, as while a run is shown."""
        return self._read_only or self.frame is not None

    def set_puzzle(self, board: Board) -> None:
        """Replaces the puzzle, in one change that can be undone, and removes the shown run."""
        self.set_frame(None)
        self._set_entry(self.entry.replace(board))

    def set_doubts(self, cells: Iterable[int]) -> None:
        """Marks cells as in doubt, and selects the first of them. Writing a digit into one removes its doubt."""
        self.doubts = frozenset(cells)
        if self.doubts:
            self._select(min(self.doubts))
        self._redraw()
        self.doubts_changed.emit()

    def cell_name(self, index: int) -> str:
        name = super().cell_name(index)
        is_doubtful = index in self.doubts and self.frame is None
        return tr("{cell}, unsure", cell=name) if is_doubtful else name

    def set_read_only(self, read_only: bool) -> None:
        """Locks or unlocks the board, for instance while a run is being started."""
        self._read_only = read_only
        self.update()  # the invitation to type depends on it

    @Slot()
    def undo(self) -> None:
        self._edit(self.entry.undo())

    @Slot()
    def redo(self) -> None:
        self._edit(self.entry.redo())

    @Slot()
    def clear_all(self) -> None:
        self._edit(self.entry.clear_all())

    def put(self, digit: str) -> None:
        """Writes a digit at the cursor; ``0`` clears the cell."""
        if self.is_read_only:
            return
        self._set_entry(self.entry.put(digit))
        if self.entry.cursor in self.doubts:
            self.doubts -= {self.entry.cursor}
            self._redraw()
            self.doubts_changed.emit()

    @Slot()
    def copy(self) -> None:
        """Copies the puzzle, or the shown run's answer, to the clipboard as 81 characters."""
        QGuiApplication.clipboard().setText(self.board.text() if self.frame is None else self.frame.answer)

    @Slot()
    def paste(self) -> None:
        """Pastes a puzzle from the clipboard. Emits ``pictured`` for a picture, ``refused`` for other text."""
        clipboard = QGuiApplication.clipboard()
        files = local_files(clipboard.mimeData())
        if self.is_read_only:
            return
        if has_picture(clipboard.mimeData()):
            self.pictured.emit(clipboard.image())
        elif files:
            self.pictured.emit(files[0])
        else:
            self.paste_text(clipboard.text())

    def paste_text(self, text: str) -> None:
        """Enters the puzzle in a text, in one change; emits ``refused`` if there is none."""
        if self.is_read_only:
            return
        board = board_in(text)
        if board is None:
            self.refused.emit(tr("There is no puzzle in the text; copy 81 digits, 0 or . for a blank."))
        else:
            self._edit(self.entry.replace(board))

    def _edit(self, entry: BoardEntry) -> None:
        if not self.is_read_only:
            self._set_entry(entry)

    def _set_entry(self, entry: BoardEntry) -> None:
        before, self.entry = self.entry, entry
        if sum(old != new for old, new in zip(before.board.cells, entry.board.cells, strict=True)) > 1:
            self.doubts = frozenset()
            self.replaced.emit()
        if entry.board != before.board:
            self._entered = entered(entry.board.cells)
            self._describe()
            self._redraw()
        elif entry is not before:
            self.update()
        if entry.cursor != before.cursor:
            self._selected = entry.cursor
            self.cellSelected.emit(entry.cursor)
        if entry.board != before.board:
            self.changed.emit(entry.board)

    def _paint(self, painter: QPainter, area: QRect) -> None:
        super()._paint(painter, area)
        if self.board.is_empty and not self.is_read_only and not self.hasFocus():
            text = tr("Type digits, paste a puzzle or a picture of one, or generate one.")
            paint_invitation(painter, self._geometry, themes.current(), text)

    def dragEnterEvent(self, event: QDragEnterEvent | QDragMoveEvent) -> None:
        if self._read_only:
            event.ignore()
        else:
            accept_drag(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        self.dragEnterEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        take_drop(event, lambda paths: self.pictured.emit(paths[0]), self.pictured.emit, self.refused.emit)

    def _select(self, index: int) -> None:
        self._set_entry(self.entry.go(index))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        edits = {"paste": self.paste, "undo": self.undo, "redo": self.redo}
        edit, digit = edit_of(event), digit_of(event)
        place = place_of(event, self.entry.cursor)
        if edit == "copy":
            self.copy()
        elif place is not None:
            self._set_entry(self.entry.go(place))
        elif self.is_read_only or (edit is None and digit is None):
            event.ignore()
        elif edit in edits:
            edits[edit]()
        else:
            self.put(digit or BLANK)

    def _wants(self, event: QKeyEvent) -> bool:
        if super()._wants(event):
            return True
        return not self.is_read_only and (edit_of(event) is not None or digit_of(event) is not None)


REFRESH_MS = 30  # between two updates of a running run


class RunBoard(QObject):
    """Shows one run at a time, from its beginning to its end. ``shown``: the board has another frame."""

    shown = Signal()
    finished = Signal(str)  # why it failed; empty if it did not

    def __init__(self, board: BoardView, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.board = board
        self.player = Player(self)
        self.puzzle = ""  # of the shown run
        self.trace: Recording | None = None
        self.is_live = False
        self.result = ""  # of the shown run, in words; empty until it has ended
        self.is_wrong = False  # the shown run has ended with an answer that does not solve the puzzle
        self._handle: RunHandle | None = None
        self._waiting = later(self, self._take_in)
        self.player.placed.connect(self._show)
        self.player.revealed.connect(self._show)

    def expect(self, puzzle: str) -> None:
        """Prepares for a run on a puzzle that was requested; until it begins the board shows the puzzle."""
        self._reset()
        self.puzzle = puzzle
        self.is_live = True

    def follow(self, handle: RunHandle) -> None:
        """Shows what comes of a run; ``end`` must be called at its end."""
        self._handle = handle
        handle.started.connect(self._began)
        handle.changed.connect(self._grow)
        handle.revealed.connect(self._grow)

    @Slot(object)
    def _began(self, view: Recording) -> None:
        self.trace = view
        self.player.open(view)
        self.shown.emit()

    @Slot()
    def _grow(self) -> None:
        if not self._waiting.isActive():
            self._waiting.start(REFRESH_MS)

    def end(self, problem: str) -> None:
        """Shows all of the run, or why it failed; empty if it did not."""
        self._waiting.stop()
        self._take_in()
        self.is_live = False
        replay = self.player.replay
        if self.trace is not None and replay is not None and replay.frames:
            last = frame(self.puzzle, replay.snapshot(len(replay.frames) - 1), self.trace.piece)
            cost = RunCost.from_trace(self.trace)
            self.result = result_text(last, cost, problem)
            judged = last.verdict
            self.is_wrong = judged is not None and not judged.valid and not (problem or cost.is_stopped)
        else:
            self.result = problem
        self.finished.emit(problem)

    def close(self) -> None:
        """Removes the run, and shows the puzzle again."""
        self._reset()
        self.is_live = False
        self.shown.emit()

    def _reset(self) -> None:
        self._waiting.stop()
        self.trace, self.result, self.is_wrong = None, "", False
        self.player.open(None)
        self.board.set_frame(None)

    @Slot()
    def _take_in(self) -> None:
        if self.trace is not None:
            self.player.refresh(1.0 if self._handle is None else self._handle.share)

    @Slot()
    def _show(self) -> None:
        shown = self.player.shown
        if shown is None or self.trace is None:
            return
        self.board.set_frame(frame(self.puzzle, shown, self.trace.piece))
        self.shown.emit()

"""The widget of the Sudoku page: the board with its slider, and the column next to it. Knows no model."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QEvent, QObject, QSize, Signal, Slot
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.board.legend import BoardLegend
from app.board.view import digit_of, edit_of
from app.design import themes
from app.design.controls import chain_tabs, restyle, scroller
from app.design.fonts import px
from app.design.layouts import STRETCH, UNLIMITED, boxed, column_of, row_of, stops_of
from app.player.scrubber import Scrub
from app.state.chat.attachment import AttachedPicture
from app.state.sudoku.board import Board, BoardCheck, check, generate
from app.state.sudoku.solve_frame import entered
from app.sudoku.board.column import Column
from app.sudoku.board.view import BoardView, RunBoard
from app.sudoku.words import SAMPLE
from app.system.i18n import tr
from app.system.timers import later
from engine.pictures import Picture
from engine.tasks.sudoku import Bin
from engine.tasks.sudoku_pictures import ReadBoard

COLUMN = 280  # pixels at 100 %
LEAST_BOARD = 280  # pixels at 100 %
NARROW_BOARD = 440  # pixels at 100 %
Shown = tuple[AttachedPicture, Picture]
LEAVING = ("paste", "undo", "redo")  # edits that end the look at a run
CHECK_MS = 120  # after the last change; a hard board takes the solver a tenth of a second


class SudokuPage(QWidget):
    """The page. ``puzzle`` is the entered board, ``run`` the shown run."""

    changed = Signal()  # the check of the puzzle has changed

    def __init__(self) -> None:
        super().__init__(accessibleName=tr("Sudoku"))
        self.setObjectName("sudoku")
        self.board = BoardView(first=Board(SAMPLE))
        self.run = RunBoard(self.board, self)
        self.scrub = Scrub(self.run.player)
        self.legend = BoardLegend()  # always visible, so that the board does not move
        self.column = Column()
        self._problem = ""
        self._facts = ""
        self._is_reading = False  # a picture is being read
        self._picture: Shown | None = None  # the picture that the puzzle was read from
        self._read: Shown | None = None  # the picture that is being read
        self._check = check(self.puzzle)
        self._later = later(self, self._check_now)
        self._lay_out()
        self._connect()
        self._show_entry()
        self._show_check()
        self._show_run()

    def _lay_out(self) -> None:
        self._left = boxed(column_of((self.board, 100), self.scrub, self.legend, STRETCH, spacing=8))
        self.side = scroller(self.column)
        self._row = row_of((self._left, 1), self.side, margins=(16, 16, 16, 12), spacing=24)
        self._inside = boxed(self._row)
        self.area = scroller(self._inside)
        self.setLayout(column_of(self.area))
        self.setFocusProxy(self.board)
        chain_tabs(self.board, stops_of(self.scrub))

    def _connect(self) -> None:
        board, column = self.board, self.column
        board.changed.connect(self._board_changed)
        board.refused.connect(self.refuse)
        board.replaced.connect(self._forget_picture)
        board.doubts_changed.connect(self._show_doubts)
        board.installEventFilter(self)
        column.bin_asked.connect(self.new_puzzle)
        column.copy.clicked.connect(board.copy)
        for control, act in (
            (column.paste, board.paste),
            (column.clear, board.clear_all),
            (column.undo, board.undo),
            (column.redo, board.redo),
            (column.back, board.setFocus),
        ):
            control.clicked.connect(partial(self._edit, act))
        self.run.shown.connect(self._show_run)
        self.run.finished.connect(self._finished)
        themes.settled.connect(self._arrange)

    @property
    def puzzle(self) -> Board:
        return self.board.board

    @property
    def keeps_givens(self) -> bool:
        """True if the model must not change the given digits."""
        return self.column.keep.isChecked()

    @property
    def check(self) -> BoardCheck:
        """The check of the puzzle, up to date."""
        self._check_now()
        return self._check

    @Slot(str)
    def new_puzzle(self, bin: Bin) -> None:
        """Puts a fresh puzzle on the board, unless a run or a reading uses it."""
        if not self._is_held:
            self.leave_run()
            self.board.set_puzzle(generate(bin, random.Random()))
            self.board.setFocus()

    def _edit(self, act: Callable[[], object], _checked: bool = False) -> None:
        self.leave_run()
        act()

    @Slot()
    def leave_run(self) -> None:
        """Shows the puzzle again, to edit it, if the run has ended."""
        if not self.run.is_live and self.run.trace is not None:
            self.run.close()

    @Slot(object)
    def _board_changed(self, _board: Board) -> None:
        self._problem = ""
        self.leave_run()
        self._show_entry()
        self._later.start(CHECK_MS)

    @property
    def _is_held(self) -> bool:
        """True while the puzzle must not be changed: a run or a reading uses the board."""
        return self.run.is_live or self._is_reading

    @Slot(str)
    def refuse(self, problem: str) -> None:
        """Shows why a puzzle was not accepted."""
        self._problem = problem
        self._show_check()

    @property
    def check_shown(self) -> BoardCheck:
        """The latest check of the puzzle, at most ``CHECK_MS`` older than the last change."""
        return self._check

    def _show_entry(self) -> None:
        entry, busy = self.board.entry, self._is_held
        column = self.column
        with column.edits:
            column.undo.setEnabled(entry.can_undo and not busy)
            column.redo.setEnabled(entry.can_redo and not busy)
            column.clear.setEnabled(not entry.board.is_empty and not busy)
            column.paste.setEnabled(not busy)
            column.picture.setEnabled(not busy)
        for control in column.bins.values():
            control.setEnabled(not busy)

    @Slot()
    def _check_now(self) -> None:
        self._later.stop()
        board_check = check(self.puzzle)
        is_new = board_check != self._check
        self._check = board_check
        self._show_check()
        if is_new:
            self.changed.emit()

    def _show_check(self) -> None:
        board_check = None if self._is_reading else self._check
        self.column.check.setText(self._problem or ("" if board_check is None else board_check.text))
        is_wrong = bool(self._problem) or (board_check is not None and board_check.kind in ("contradiction", "none"))
        role = "error" if is_wrong else "caption"
        if self.column.check.property("role") != role:
            restyle(self.column.check, "role", role)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Leaves a run that has ended when the user types or edits."""
        is_pressed = watched is self.board and event.type() == QEvent.Type.KeyPress
        if is_pressed and isinstance(event, QKeyEvent) and (digit_of(event) or edit_of(event) in LEAVING):
            self.leave_run()
        return super().eventFilter(watched, event)

    def begin_reading(self) -> None:
        """Prepares the board for a picture; the puzzle is kept underneath."""
        self._problem = ""
        self.leave_run()
        self._hold(reading=True)

    @Slot(object, object)
    def show_picture(self, shown: AttachedPicture, picture: Picture) -> None:
        """Shows the picture that is being read."""
        self._read = shown, picture
        self.column.note.show_picture(shown, picture)

    @Slot(object)
    def show_reading(self, read: ReadBoard) -> None:
        """Shows the cells that are read so far."""
        self.board.set_frame(entered(read.cells))

    @Slot(object, str)
    def end_reading(self, read: ReadBoard | None, problem: str) -> None:
        """Puts the read puzzle on the board. If it is None the old one stays, and ``problem`` says why."""
        self._hold(reading=False)
        if read is None:
            self.board.set_frame(None)
            self.refuse(problem)
        else:
            self.board.set_puzzle(Board(read.cells))
            self._picture = self._read
            self.board.set_doubts(read.doubts)
            self.board.setFocus()
        self._show_picture()

    def _hold(self, *, reading: bool) -> None:
        self._is_reading = reading
        self.board.set_read_only(reading)
        self._show_entry()
        self._show_check()

    @Slot()
    def _forget_picture(self) -> None:
        self._picture = None
        self._show_picture()

    def _show_picture(self) -> None:
        """Shows the picture that the puzzle was read from, if there is one."""
        if self._picture is None:
            self.column.note.clear()
        else:
            self.column.note.show_picture(*self._picture)
            self._show_doubts()

    @Slot()
    def _show_doubts(self) -> None:
        self.column.note.show_doubts(len(self.board.doubts))

    def expect(self, facts: str) -> None:
        """Prepares the board for a run that was requested; ``facts`` names its model and settings."""
        self._facts = facts
        self._problem = ""
        self.run.expect(self.puzzle.cells)
        self.board.set_read_only(True)
        self.scrub.follow(True)
        self._show_entry()
        self._show_run()

    @Slot(str)
    def _finished(self, problem: str) -> None:
        self.board.set_read_only(False)
        if self.run.trace is None:
            self.run.close()
        self.scrub.follow(False)
        self._show_entry()
        self._show_run()
        if problem and self.run.trace is None:
            self.refuse(problem)

    @Slot()
    def _show_run(self) -> None:
        run = self.run
        has_run = run.trace is not None
        over = has_run and not run.is_live
        self.column.show_result(run.result, self._facts if has_run else "", has_run=over, failed=over and run.is_wrong)

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._arrange()

    @Slot()
    def _arrange(self) -> None:
        """Lays out the page. Wide: the column scrolls next to the board. Narrow: it is below, and all scrolls."""
        least = px(LEAST_BOARD)
        narrow = self.width() < px(COLUMN) + least + 56
        room = self.width() - 32 if narrow else self.width() - 56 - px(COLUMN) - 12
        self.board.setMaximumHeight(max(room, least))  # so that the slider is directly under the squares
        if narrow:
            self._row.setDirection(QBoxLayout.Direction.TopToBottom)
            under = self.scrub.sizeHint().height() + self.legend.heightForWidth(room) + 24
            self._left.setMinimumHeight(min(room, px(NARROW_BOARD)) + under)
            self.side.setMinimumHeight(self.column.heightForWidth(self.width() - 40) + 8)
            self.side.setMinimumWidth(0)
            self.side.setMaximumWidth(UNLIMITED)
            self._inside.setMaximumHeight(UNLIMITED)
        else:
            self._row.setDirection(QBoxLayout.Direction.LeftToRight)
            self._left.setMinimumHeight(0)
            self.side.setMinimumHeight(0)
            self.side.setFixedWidth(px(COLUMN) + 12)
            self._inside.setMaximumHeight(max(200, self.height()))

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)

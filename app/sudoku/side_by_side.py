"""The Side by side tab: two contenders on one puzzle with one seed, and one slider for both runs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QCheckBox, QWidget

from app.design.choice_box import ChoiceBox
from app.design.controls import FocusGroup, button, flow_of, label, scroller, show_stop
from app.design.fonts import px
from app.design.layouts import boxed, column_of, row_of
from app.player.scrubber import Scrub
from app.state.sudoku.board import Board
from app.sudoku.board.column import BinChips
from app.sudoku.board.run_board import RunBoard
from app.sudoku.board.view import BoardView
from app.sudoku.contenders import Contender, usual_pair
from app.sudoku.words import steps_text
from app.system.i18n import tr

OPEN_FOLDER = "open-folder"  # the choosers' last entry
NARROW = 608  # pixels; below it the boards are in one column
LEAST, NARROW_BOARD = 240, 360


class BoardSide(QWidget):
    """One side: the choice of a contender, its board and its result."""

    chosen = Signal()
    folder_asked = Signal()  # for an adapter

    def __init__(self, name: str) -> None:
        super().__init__()
        self._offered: list[Contender] = []
        self.contender: Contender | None = None  # None before any was offered
        self.chooser = ChoiceBox()
        self.chooser.setAccessibleName(name)
        self.chooser.setAccessibleDescription(tr("A model, with or without an adapter"))
        self.chooser.setToolTip(tr("A model, with or without an adapter"))
        self.chooser.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.chooser.setMinimumContentsLength(12)
        self.board = BoardView()
        self.board.setAccessibleName(tr("{side}: board", side=name))
        self.board.set_read_only(True)
        self.run = RunBoard(self.board, self)
        self.result = label("", "verdict", wrap=True, selectable=True)
        self.result.setAccessibleName(tr("{side}: result", side=name))
        self.result.setMinimumHeight(px(40))  # two lines, so that the boards stay level
        self.result.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.inspect = button(tr("Open in the inspector"), tr("{side}: open the run in the inspector", side=name))
        policy = self.inspect.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.inspect.setSizePolicy(policy)
        self.setLayout(column_of(self.chooser, (self.board, 1), self.result, self.inspect, spacing=8))
        self.chooser.activated.connect(self._choose)
        self.run.shown.connect(self.show_run)
        self.run.started.connect(self.show_run)
        self.run.finished.connect(self._finished)
        self.show_run()

    def offer(self, offered: Sequence[Contender], chosen: Contender) -> None:
        """Sets the contenders to choose from, and the chosen one, which is added if it is missing."""
        self._offered = list(offered)
        if chosen not in self._offered:
            self._offered.append(chosen)
        self.chooser.clear()
        for place, one in enumerate(self._offered):
            self.chooser.addItem(one.title, place)
        self.chooser.insertSeparator(self.chooser.count())
        self.chooser.addItem(tr("Open an adapter's folder…"), OPEN_FOLDER)
        self.choose(chosen)

    def choose(self, contender: Contender) -> None:
        """Chooses one of the offered contenders."""
        self.contender = contender
        self.chooser.setCurrentIndex(self._offered.index(contender))

    @Slot(int)
    def _choose(self, index: int) -> None:
        place = self.chooser.itemData(index)
        if place == OPEN_FOLDER:
            if self.contender is not None:
                self.choose(self.contender)
            self.folder_asked.emit()
        elif place is not None and self._offered[place] != self.contender:
            self.contender = self._offered[place]
            self.run.close()
            self.chosen.emit()

    @Slot(str)
    def _finished(self, problem: str) -> None:
        if self.run.trace is None:
            self.run.close()
        self.show_run()
        if problem:
            self.result.setText(problem)

    @Slot()
    def show_run(self) -> None:
        """Shows the run's steps so far, or its result."""
        run, frame = self.run, self.run.frame
        if run.trace is None or frame is None:
            text = tr("Waits for its turn") if run.is_live else ""
        elif run.result and run.is_at_end:
            text = run.result
        else:
            steps, accepted = steps_text(frame.steps), frame.accepted
            text = tr("After {steps}: {accepted} of 81 accepted", steps=steps, accepted=accepted)
        self.result.setText(text)
        self.inspect.setVisible(bool(run.result) and run.trace is not None)


class SideBySide(QWidget):
    """The tab. The puzzle is that of the tab "One puzzle"."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.left, self.right = BoardSide(tr("At the left")), BoardSide(tr("At the right"))
        self.sides = (self.left, self.right)
        self.solve = button(tr("Solve both"), tr("Solve the puzzle with both"), role="primary")
        self.stop = button(tr("Stop"), role="plain")
        self.clamp = QCheckBox(tr("Clamp givens"))
        self.bins = BinChips(self)
        self._focus = FocusGroup(self.solve, self.stop)
        self.note = label("", "caption", wrap=True)
        self.note.setAccessibleName(tr("What is compared"))
        self.scrub = Scrub([side.run.player for side in self.sides])
        self.scrub.words.hide()  # each side shows its own
        self._lay_out()
        for side in self.sides:
            side.run.started.connect(self._started)
            side.run.finished.connect(self._finished)

    def _lay_out(self) -> None:
        self._head = head = flow_of(self.solve, self.stop, self.clamp, *self.bins.buttons.values(), gap=12)
        self._row = row_of(*((side, 1) for side in self.sides), spacing=24)
        inside = column_of(head, self.note, (self._row, 1), self.scrub, margins=(16, 12, 16, 8), spacing=8)
        self._inside = boxed(inside)
        self.area = scroller(self._inside)
        self.setLayout(column_of(self.area))

    def offer(self, offered: Sequence[Contender]) -> None:
        """Sets the contenders to choose from; the chosen ones stay."""
        for side, first in zip(self.sides, usual_pair(list(offered)), strict=True):
            side.offer(offered, side.contender or first)

    def show_puzzle(self, board: Board, text: str) -> None:
        """Shows the puzzle to be solved; ``text`` describes its state."""
        for side in self.sides:
            if not side.run.is_live and side.board.board != board:
                side.run.close()
                side.board.set_puzzle(board)
        self.note.setText(text)

    def show_solving(self, busy: bool, reason: str, *, can_run: bool, skips: bool) -> None:
        """Shows whether something is running, and what it waits for or why nothing can run.

        Args:
            skips: As in ``Column.show_solving``.
        """
        show_stop(self.stop, tr("Stop"), tr("Stop both"), skips=skips)
        with self._focus:
            self.solve.setVisible(not busy)
            self.stop.setVisible(busy)
            self.solve.setEnabled(can_run)
        self.solve.setToolTip(reason)
        self.bins.set_enabled(not busy)
        for side in self.sides:
            side.chooser.setEnabled(not busy)

    def expect(self, puzzle: str) -> None:
        """Prepares both boards for the runs that were requested."""
        for side in self.sides:
            side.run.expect(puzzle)
            side.show_run()

    @Slot()
    def _started(self) -> None:
        live = next((side for side in reversed(self.sides) if side.run.is_live and side.run.trace is not None), None)
        if live is not None:
            self.scrub.follow(live.run.player)

    @Slot()
    def _finished(self) -> None:
        if not any(side.run.is_live for side in self.sides):
            self.scrub.follow(None)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        narrow = self.width() < NARROW
        directions = QBoxLayout.Direction
        self._row.setDirection(directions.TopToBottom if narrow else directions.LeftToRight)
        least = min(self.width() - 32, NARROW_BOARD) if narrow else LEAST
        for side in self.sides:
            side.board.setMinimumSize(LEAST, least)
        least = self._inside.layout().minimumSize().height()  # type: ignore[union-attr]
        for wrapped in (self._head, self.note):  # the layout counts one line only for each
            least += max(0, wrapped.heightForWidth(self.width() - 32) - wrapped.minimumSizeHint().height())
        self._inside.setMinimumHeight(0 if narrow else least)
        self._inside.setMaximumHeight(16777215 if narrow else max(least, self.height()))

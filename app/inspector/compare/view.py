"""The comparison of two runs side by side, at the same step: the differences in cells and words."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import TypeVar

import numpy as np
from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QBoxLayout, QStackedWidget, QWidget

from app.board.legend import BoardLegend
from app.design import themes
from app.design.controls import Hairline, button, flow_of, label
from app.design.fonts import TEXT_BODY, px
from app.design.layouts import boxed, column_of, row_of
from app.design.tokens import SPACE_2, SPACE_4
from app.inspector.canvas.canvas import FONT_SIZES, RESERVED_TOKENS
from app.inspector.compare.side import RunSide
from app.inspector.run_cards import RunChooser
from app.inspector.words import (
    asked_in_words,
    divergence_in_words,
    frame_words,
    here_in_words,
    made_in_words,
    run_title,
)
from app.player.player import Player
from app.state.run.comparison import comes_from, counterpart, differing, first_divergence, has
from app.state.run.replay import BlockRecord, Frame
from app.system.i18n import tr
from app.system.timers import every
from engine import Recording

T = TypeVar("T")
SIZES = (*FONT_SIZES, TEXT_BODY)  # text sizes of the cells, the largest first
LOW = 480  # below this height the legend of boards is hidden; tool tips say what it says
TINY = 240  # below this height what differs is not said in words
NARROW = 640  # pixels at 100 %; below this width the buttons are below the words
SLICE_SECONDS = 0.008  # most time to search for the divergence before events of the user are handled


class Compare(QStackedWidget):
    """The run of ``player`` next to another run, which follows its steps. A fork is shown right of its original.

    Without another run the runs to choose from are shown. Nothing is read while the widget is hidden.
    """

    wanted = Signal()  # asks for the runs that can be chosen; the receiver shows them in ``chooser``

    def __init__(self, player: Player) -> None:
        super().__init__()
        self._player = player
        self.trace: Recording | None = None  # the other run
        self._same = 0  # number of frames at the beginning that are known to be equal
        self._search: Generator[int, None, Frame | None] | None = None  # the running search for the divergence
        self._searching = every(self, self._look)  # no interval: fires once no other event is waiting
        self._divergence: Frame | None = None
        self._parted = False  # both runs have a frame at the divergence, so it is final
        self._fitted: tuple[object, ...] = ()
        self._has_boards = False
        self._is_turned = False  # the player's run is a fork of the other run, which is then left
        self.other = Player(self)
        self.setAccessibleName(tr("Two runs side by side"))
        self.chooser = RunChooser()
        self.addWidget(self.chooser)
        self.both = self._build_both()
        self.addWidget(self.both)
        self._connect()

    def _build_both(self) -> QWidget:
        self.asked = label("", wrap=True, selectable=True, name=tr("What was asked differently"))
        self.facts = label("", "caption", wrap=True, selectable=True, name=tr("What differs here"))
        self.diverge = button(tr("First difference"), tr("Go to where the two runs first differ"))
        self.as_board = button(
            tr("Board"), tr("Compare the boards"), tip=tr("Boards, or the tokens they are written in"), checkable=True
        )
        self.choose = button(tr("Another run…"), tr("Choose another run to compare with"), clicked=self.show_chooser)
        self.left = RunSide(tr("Canvas of the run at the left"), self._player)
        self.right = RunSide(tr("Canvas of the run at the right"), self._player)
        self.legend = BoardLegend()
        self._below = boxed(column_of(self.legend, margins=(SPACE_4, 0, SPACE_4, SPACE_2)))
        self._words = boxed(column_of(self.asked, self.facts, spacing=2))
        self._head = row_of((self._words, 1), margins=(SPACE_4, SPACE_2, SPACE_4, SPACE_2), spacing=SPACE_4)
        buttons = flow_of(self.as_board, self.diverge, self.choose, gap=SPACE_4)
        self._head.addWidget(buttons, 0, Qt.AlignmentFlag.AlignTop)
        canvases = row_of((self.left, 1), Hairline(Qt.Orientation.Vertical), (self.right, 1), spacing=0)
        return boxed(column_of(self._head, Hairline(), (canvases, 1), self._below, spacing=0))

    def _connect(self) -> None:
        player = self._player
        self.chooser.back.clicked.connect(self.show_both)
        self.diverge.clicked.connect(self.go_to_divergence)
        self.as_board.clicked.connect(self._player.set_board)
        player.opened.connect(self._load)
        player.placed.connect(self._show)
        player.board_changed.connect(self._show)
        player.grown.connect(self._grown)
        themes.settled.connect(self._fit_again)

    @property
    def is_choosing(self) -> bool:
        """True if the runs to choose from are visible."""
        return self.isVisible() and self.currentWidget() is self.chooser

    def set_other(self, trace: Recording | None) -> None:
        """Compares with this run; None removes the comparison."""
        self.trace = trace
        self.chooser.back.setVisible(trace is not None)
        if trace is None:
            self._search = None
            self.other.open(None)
            self.show_chooser()
        else:
            self.show_both()
            self._load()

    @Slot()
    def show_chooser(self) -> None:
        if self.isVisible():
            self.wanted.emit()
        self.setCurrentWidget(self.chooser)

    @Slot()
    def show_both(self) -> None:
        self.setCurrentWidget(self.both)

    @Slot()
    def _load(self) -> None:
        """Loads both runs if the widget is visible."""
        self._search = None
        one, other = self._player.trace, self.trace
        if not self.isVisible() or other is None or one is None:
            return
        if self.other.trace is not other:
            self.other.open(other, 0)
        self._is_turned = comes_from(one.header, other.header)
        titles = [run_title(one.header), run_title(other.header)]
        if self._is_turned:
            titles = [tr("With the change: {title}", title=made_in_words(one.header, one.piece)), tr("The original")]
        for side, trace, title in zip(self._sides, (one, other), titles, strict=True):
            side.set_run(trace, title)
        fork = other if comes_from(other.header, one.header) else one
        self.asked.setText(asked_in_words(*self._in_order(one.header, other.header), fork.piece))
        self._divergence, self._parted, self._same, self._fitted = None, False, 0, ()
        self._grown()

    @property
    def _sides(self) -> tuple[RunSide, RunSide]:
        """The side of the run of ``player``, and that of the other run."""
        return self._in_order(self.left, self.right)

    def _in_order(self, mine: T, other: T) -> tuple[T, T]:
        """Returns an item of the run of ``player`` and one of the other run in the order left, right."""
        return (other, mine) if self._is_turned else (mine, other)

    @Slot()
    def _grown(self) -> None:
        """Searches for the divergence. Frames found equal are not compared again, since runs only grow."""
        one, other = self._player.replay, self.other.replay
        if not self.isVisible() or one is None or other is None:
            return
        if not self._parted and self._search is None:
            self._search = first_divergence(one, other, self._same)
            self._look()
        self._show_search()

    def _look(self) -> None:
        """Searches for the divergence for ``SLICE_SECONDS``; the timer continues the search."""
        search, one, other = self._search, self._player.replay, self.other.replay
        if search is None or one is None or other is None or not self.isVisible():  # restarts when shown
            self._searching.stop()
            return
        until = time.monotonic() + SLICE_SECONDS
        try:
            self._same = next(search)
            while time.monotonic() < until:
                self._same = next(search)
            self._searching.start()
        except StopIteration as end:
            self._search, self._divergence = None, end.value
            self._parted = end.value is not None and has(one, end.value) and has(other, end.value)
            self._searching.stop()
            self._show_search()

    def _show_search(self) -> None:
        self.diverge.setEnabled(self._search is None and self._divergence is not None)
        self._show()

    @Slot()
    def go_to_divergence(self) -> None:
        """Shows the first frame that differs, or the last one before it if only the other run has that frame."""
        replay, divergence = self._player.replay, self._divergence
        if replay is None or divergence is None:
            return
        self._player.pause()
        if has(replay, divergence):
            self._player.go(replay.place(divergence))
        elif divergence.block < replay.blocks:
            self._player.go_to_block(divergence.block)
        else:
            self._player.go(len(replay.frames) - 1)

    @Slot()
    def _show(self) -> None:
        frame, one, other = self._player.frame, self._player.replay, self.other.replay
        trace = self._player.trace
        if not self.isVisible() or frame is None or trace is None or one is None or other is None:
            return
        place = counterpart(frame, other)
        mine, theirs = self._player.snapshot, None if place is None else other.snapshot(place)
        if place is not None:
            self.other.go(place)
        self._show_boards()
        self._fit_block()
        calm = self._player.calm
        ends = (*trace.config.eos_token_ids, trace.config.pad_token_id)
        marks = differing(mine, theirs, calm=calm, no_text=ends)
        here_side, there_side = self._sides
        here = frame_words(frame, one.steps_of(frame.block), mine, one.read_count)
        there = tr("This run has no block {block}.", block=frame.block + 1)
        if place is not None:
            their_frame = other.frames[place]
            there = frame_words(their_frame, other.steps_of(their_frame.block), theirs, other.read_count)
        here_side.show_frame(mine, here, marks, calm=calm)
        there_side.show_frame(theirs, there, differing(theirs, mine, calm=calm, no_text=ends), calm=calm)
        parting = tr("Looking for the first difference…")
        if self._search is None:
            parting = divergence_in_words(self._divergence, *self._in_order(one, other))
        self.facts.setText(here_in_words(int(marks.sum()), len(marks), [parting]))

    def _show_boards(self) -> None:
        """Shows both as boards if both are Sudokus and boards are wanted."""
        left, right = self.left.placed(self._player.block), self.right.placed(self.other.block)
        has_boards = left is not None and right is not None
        self.as_board.setVisible(has_boards)
        self.as_board.setChecked(self._player.board)
        self._has_boards = has_boards and self._player.board
        for side, placed in ((self.left, left), (self.right, right)):
            side.show_board(placed if self._has_boards else None)
        self._arrange()

    def _arrange(self) -> None:
        """Fits the parts to the size: in a low window there is no legend, in a narrow one the buttons have a line."""
        down, across = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._head.setDirection(down if self.width() < px(NARROW) else across)
        self._words.setVisible(self.height() >= px(TINY))
        self._below.setVisible(self._has_boards and self.height() >= px(LOW))

    def _fit_block(self) -> None:
        """Gives both sides the largest cell size at which both blocks are wholly visible. It is kept within a block."""
        frame, record = self._player.frame, self._player.block
        assert frame is not None
        block = frame.block
        seen = (self.left, self.right)
        rooms = tuple(side.area.viewport().size() for side in seen)
        now = (block, self._player.calm, rooms, None if record is None else record.steps)
        if now == self._fitted:
            return
        self._fitted = now
        other = self.other.replay
        records = [record, other.record(block) if other is not None and block < other.blocks else None]
        tokens = _tokens(records, self._player.calm)
        for side, snapshot in zip(self._sides, (self._player.snapshot, self.other.snapshot), strict=True):
            if side.view.block is None:  # layout needs a block
                side.view.set_block(snapshot)
        for size in SIZES:
            if all([side.fits(size, tokens) for side in seen]):  # noqa: C419 - each takes the size
                break

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._arrange()
        self._show()

    @Slot()
    def _fit_again(self) -> None:
        self._fitted = ()
        self._show()

    def showEvent(self, _event: QShowEvent) -> None:
        if self.trace is None:
            self.show_chooser()
        self._load()


def _tokens(records: Sequence[BlockRecord | None], calm: bool) -> list[int]:
    """Returns the tokens that occur in these blocks, so that cells are equally wide in both."""
    canvases = [record.argmax if calm and record.steps else record.noise for record in records if record is not None]
    return np.unique(np.concatenate([part.ravel() for part in canvases]))[:RESERVED_TOKENS].tolist() if canvases else []

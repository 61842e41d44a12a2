"""Replays the run of an answer: a slider under it, and the canvas of the shown step in place of its text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app.board.geometry import MARGIN
from app.board.legend import BoardLegend
from app.board.view import BlockBoard
from app.bridge.background import Background
from app.canvas.view import CanvasView
from app.chat.commands import TurnCommands, ViewOptions
from app.chat.markdown_view.widget import PAD, MarkdownView
from app.design import themes
from app.design.controls import introduce, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.player.player import NOTHING, Player
from app.player.scrubber import Scrub
from app.state.chat.attachment import with_attachments
from app.state.chat.conversation import Answer, Turn
from app.state.run.canvas import BlockState
from app.state.run.replay import Replay, read_run
from app.state.sudoku.placing import answered, placed
from app.state.sudoku.solve_frame import settled
from app.system import logs
from app.system.crash_handler import one_line
from app.system.i18n import tr
from engine import Recording, SafelightError, catalog

CELL, LEAST_CELL = 36, 24  # pixels at 100 %
AROUND = 430  # pixels of a window's height outside the board
LEAST_LEGEND = 120


class AnswerBoard(QWidget):
    """A Sudoku board; ``is_on`` is True while the last content shown is a Sudoku. Built when it first is."""

    def __init__(self, rebuilt: Callable[[], object]) -> None:
        super().__init__()
        self._rebuilt = rebuilt
        self.is_on = False
        self.is_alone = False  # True if the answer is the grid and nothing else
        self._is_built = False  # few answers are Sudokus
        self.hide()

    def _build(self) -> None:
        if self._is_built:
            return
        self._is_built = True
        self.board = introduce(BlockBoard(), tr("Board of the answer"))
        self.legend = BoardLegend()
        self.verdict = label("", "verdict", wrap=True, selectable=True, name=tr("Result"))
        row = row_of(self.board, (self.legend, 100), STRETCH, spacing=16)
        under = column_of(self.verdict, margins=(MARGIN, 0, 0, 0))
        self.setLayout(column_of(row, under, margins=(PAD - MARGIN, 0, PAD, 0), spacing=0))
        self._take_text_size()
        themes.changed.connect(self._take_text_size)
        self._rebuilt()

    @Slot()
    def _take_text_size(self) -> None:
        self._fit_board()
        self.verdict.setMinimumHeight(px(24))  # so that nothing moves when the verdict appears

    def show_block(self, prompt: str, block: BlockState, piece: Callable[[int], str]) -> None:
        """Shows the state of a canvas, if the answer to this prompt is a Sudoku."""
        cells = placed(prompt, block, piece)
        self.is_on = cells is not None
        if cells is not None:
            self._build()
            self.is_alone |= not block.committed
            self.board.place(cells, piece)
            self.board.set_block(block)
            self._judge()

    def show_text(self, prompt: str, text: str) -> None:
        """Shows the final answer, if it is a Sudoku."""
        written = answered(prompt, text)
        self.is_on, self.is_alone = written is not None, written is not None and written.grid.is_alone
        if written is None:
            return
        self._build()
        here = self.board.frame
        if here is None or (here.puzzle, here.answer) != (written.puzzle, written.grid.answer) or not here.committed:
            self.board.set_frame(settled(written.puzzle, written.grid.answer))
        self._judge()

    def _judge(self) -> None:
        frame = self.board.frame
        said = None if frame is None else frame.verdict
        self.verdict.setText("" if said is None else said.text)
        self._fit_legend()

    def _fit_board(self) -> None:
        """Sets the board's size: fixed, but smaller in a low window so that all of it is visible."""
        cell, window = px(CELL), self.window()
        if window is not self:  # it has been placed in the window
            cell = min(cell, max((window.height() - px(AROUND)) // 9, px(LEAST_CELL)))
        self.board.setFixedSize(9 * cell + 2 * MARGIN, 9 * cell + 2 * MARGIN)

    def _fit_legend(self) -> None:
        """Shows the legend next to a board that is being filled, if there is room."""
        frame = self.board.frame
        room = self.width() - self.board.width() - 3 * PAD
        self.legend.setVisible(frame is not None and not frame.committed and room >= px(LEAST_LEGEND))

    def resizeEvent(self, _event: QResizeEvent) -> None:
        if self._is_built:
            self._fit_board()
            self._fit_legend()


class AnswerReplay(QWidget):
    """The row with the slider. ``stage`` holds the canvas; the answer's view places it where the text is.

    The run is read when first used, in a thread, since a long one would block the window.
    """

    reading = Signal(object)  # the turn, whose run is read now
    changed = Signal()  # ``is_on`` changed
    moving = Signal(object)  # the turn, before another frame is shown, which may change the height
    moved = Signal(object)  # the turn, after the frame is shown

    def __init__(self, turn: Turn, options: ViewOptions, commands: TurnCommands, rebuilt: Callable[[], object]) -> None:
        super().__init__()
        self._turn, self._options, self._rebuilt = turn, options, rebuilt
        self._run_of, self._wanted = commands.run_of, turn.answer
        self._reader = Background(self, self._open)
        self._reader.failed.connect(self._refuse)
        self.is_offered = False
        self.is_on = False  # True while a step of the run is shown in place of the answer
        self.player = Player(self)
        self.scrub = Scrub(self.player, in_line=True)
        self.stage = QWidget()
        self.stage.hide()
        self.said: MarkdownView | None = None  # the text of the blocks before
        self.canvas: CanvasView | None = None
        self.board: AnswerBoard | None = None
        self._said_before = NOTHING  # index of the block that ``said`` ends before
        self.setLayout(row_of(self.scrub))
        self.scrub.wanted.connect(self._read)
        self.scrub.pace_chosen.connect(commands.choose_pace)
        for signal in (self.player.placed, self.player.revealed, self.player.playing_changed):
            signal.connect(self._show)
        self.set_options(options)

    def set_options(self, options: ViewOptions) -> None:
        self._options = options
        self.scrub.set_pace(options.pace)
        if self.canvas is not None:
            self.canvas.set_calm(options.calm)

    def offer(self, answer: Answer) -> None:
        """Sets the length of the slider, which is offered for an answer that has a recorded run.

        While it runs, only its pace is; text that grows has none.
        """
        has_pace = not (answer.is_plain or answer.config.grows)
        self.is_offered = has_pace if answer.is_active else answer.has_trace
        self.scrub.set_live(answer.is_active)
        figures = answer.figures
        self.scrub.offer(0 if answer.is_active else max(2, figures.steps + 2 * figures.blocks))

    @Slot()
    def _read(self) -> None:
        self.reading.emit(self._turn)
        self._wanted = self._turn.answer
        try:
            run = self._run_of(self._wanted)
        except SafelightError as error:
            self._refuse(error)
        else:
            self._reader.ask(lambda: read_run(run))

    @Slot(object)
    def _open(self, run: tuple[Replay, Recording]) -> None:
        """Shows a run that has been read, and does what the slider was asked for."""
        replay, trace = run
        if self._turn.answer is self._wanted:
            self._make_stage(trace)
            self._said_before = NOTHING
            self.player.open(trace, replay=replay)

    @Slot(object)
    def _refuse(self, error: Exception) -> None:
        if self._turn.answer is self._wanted:
            self.scrub.refuse(one_line(error))
        if not isinstance(error, SafelightError):
            logs.record(error, "in reading a run")

    def forget(self) -> None:
        """Shows the answer and drops the run, which is read again when needed."""
        self.player.open(None)

    @property
    def place(self) -> int:
        """The index of the shown frame; 0 while the answer is shown."""
        return self.player.place if self.is_on else 0

    def _make_stage(self, trace: Recording) -> None:
        if self.said is None or self.canvas is None or self.board is None:
            self.said = MarkdownView(tr("Answer before this block"))
            self.said.rebuilt.connect(self._rebuilt)
            self.canvas = introduce(CanvasView(), tr("Canvas of the step shown"))
            self.board = AnswerBoard(self._rebuilt)
            inside = row_of(self.canvas, margins=(PAD, 0, PAD, 0))
            self.stage.setLayout(column_of(self.said, self.board, inside, spacing=8))
            self.canvas.set_calm(self._options.calm)
            self._rebuilt()
        self.canvas.set_piece(trace.piece, trace.is_special)
        self.canvas.setColumns(catalog.traits(trace.header.model.name).canvas_columns)

    @Slot()
    def _show(self) -> None:
        """Shows the player's frame; at the last frame, the answer itself."""
        player, replay, was_on = self.player, self.player.replay, self.is_on
        if replay is None and not was_on:
            return
        self.moving.emit(self._turn)
        self.is_on = replay is not None and (player.is_playing or player.place < len(replay.frames) - 1)
        shown = player.shown
        if self.is_on and shown is not None:
            self._show_block(shown)
        if self.is_on != was_on:
            self.stage.setMinimumHeight(0)
            self.stage.setVisible(self.is_on)
            self.changed.emit()
        self.moved.emit(self._turn)

    def reserve(self, pixels: int) -> None:
        """Makes the stage higher by ``pixels`` until the answer is shown again."""
        self.stage.setMinimumHeight(self.stage.height() + pixels)

    def _show_block(self, shown: BlockState) -> None:
        """Shows a canvas, or its Sudoku board, under the text written before it."""
        if self.said is None or self.canvas is None or self.board is None:
            return
        self.canvas.set_block(shown)
        self.board.show_block(with_attachments(self._turn.prompt, self._turn.attachments), shown, self.player.piece)
        self.board.setVisible(self.board.is_on)
        self.canvas.setVisible(not self.board.is_on)
        if shown.block_index != self._said_before:
            self._said_before = shown.block_index
            text = _text_before(self.player.trace, shown.block_index)
            self.said.set_text(text)
            self.said.setVisible(bool(text.strip()))


def _text_before(trace: Recording | None, block: int) -> str:
    """Returns the text that a run had written before a block; empty if it cannot be read."""
    if trace is None or not block:
        return ""
    with contextlib.suppress(SafelightError, IndexError):
        return trace.reply(block - 1).text
    return ""

"""Replays the run of an answer: a slider under it, and the canvas of the shown step in place of its text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from app.canvas.view import CanvasView
from app.chat.commands import TurnCommands
from app.chat.messages.board import AnswerBoard
from app.chat.prose.widget import PAD, Prose
from app.chat.view_options import ViewOptions
from app.design.layouts import column_of, row_of
from app.player.player import NOTHING, Player
from app.player.scrubber import Scrub
from app.state.chat.attachment import with_attachments
from app.state.chat.conversation import Answer, Turn
from app.state.run.canvas import BlockState
from app.state.run.replay import Replay
from app.system.i18n import tr
from engine import Recording, SafelightError, catalog


class AnswerReplay(QWidget):
    """The row with the slider. ``stage`` holds the canvas; the answer's view places it where the text is.

    The run is read when first used; ``TurnCommands.replay`` calls ``open`` or ``refuse`` in reply.
    """

    changed = Signal()  # ``is_on`` changed
    moving = Signal(object)  # the turn, before another frame is shown, which may change the height
    moved = Signal(object)  # the turn, after the frame is shown

    def __init__(self, turn: Turn, options: ViewOptions, commands: TurnCommands, rebuilt: Callable[[], object]) -> None:
        super().__init__()
        self._turn, self._options, self._rebuilt = turn, options, rebuilt
        self.is_offered = False
        self.is_on = False  # True while a step of the run is shown in place of the answer
        self.player = Player(self)
        self.scrub = Scrub(self.player, in_line=True)
        self.stage = QWidget()
        self.stage.hide()
        self.said: Prose | None = None  # the text of the blocks before
        self.canvas: CanvasView | None = None
        self.board: AnswerBoard | None = None
        self._said_before = NOTHING  # index of the block that ``said`` ends before
        self.setLayout(row_of(self.scrub))
        self.scrub.wanted.connect(lambda: commands.replay(turn))
        self.scrub.pace_chosen.connect(lambda pace: commands.choose_pace(pace))
        self.player.placed.connect(self._show)
        self.player.revealed.connect(self._show)
        self.player.playing_changed.connect(self._show)
        self.set_options(options)

    def tab_stops(self) -> list[QWidget]:
        if self.said is None or self.canvas is None or self.board is None:
            return self.scrub.tab_stops()
        return [*self.said.tab_stops(), *self.board.tab_stops(), self.canvas, *self.scrub.tab_stops()]

    def set_options(self, options: ViewOptions) -> None:
        self._options = options
        self.scrub.set_pace(options.pace)
        if self.canvas is not None:
            options.apply(self.canvas)

    def offer(self, answer: Answer) -> None:
        """Sets the length of the slider, which is offered for an answer that has a recorded run.

        While it runs, only its pace is; text that grows has none.
        """
        has_pace = not (answer.is_plain or answer.config.grows)
        self.is_offered = has_pace if answer.is_active else answer.has_trace
        self.scrub.set_live(answer.is_active)
        figures = answer.figures
        self.scrub.offer(0 if answer.is_active else max(2, figures.steps + 2 * figures.blocks))

    def open(self, replay: Replay, trace: Recording) -> None:
        """Shows a run that has been read, and does what the slider was asked for."""
        self._make_stage(trace)
        self._said_before = NOTHING
        self.player.open(trace, replay=replay)

    def refuse(self, why: str) -> None:
        self.scrub.refuse(why)

    def forget(self) -> None:
        """Shows the answer and drops the run, which is read again when needed."""
        self.player.open(None)
        self._show()

    @property
    def place(self) -> int:
        """The index of the shown frame; 0 while the answer is shown."""
        return self.player.place if self.is_on else 0

    def _make_stage(self, trace: Recording) -> None:
        if self.said is None or self.canvas is None or self.board is None:
            self.said = Prose(tr("Answer before this block"))
            self.said.rebuilt.connect(self._rebuilt)
            self.canvas, self.board = CanvasView(), AnswerBoard(self._rebuilt)
            self.canvas.setAccessibleName(tr("Canvas of the step shown"))
            inside = row_of(self.canvas, margins=(PAD, 0, PAD, 0))
            self.stage.setLayout(column_of(self.said, self.board, inside, spacing=8))
            self._options.apply(self.canvas)
            self._rebuilt()
        self.canvas.set_piece(trace.piece, trace.is_special)
        self.canvas.setColumns(catalog.traits(trace.header.model.name).canvas_columns)

    @Slot()
    def _show(self) -> None:
        """Shows the player's frame; at the last frame, the answer itself."""
        if self.player.replay is None and not self.is_on:
            return
        self.moving.emit(self._turn)
        self._show_frame()
        self.moved.emit(self._turn)

    def reserve(self, pixels: int) -> None:
        """Makes the stage higher by ``pixels`` until the answer is shown again."""
        self.stage.setMinimumHeight(self.stage.height() + pixels)

    def _show_frame(self) -> None:
        player, replay = self.player, self.player.replay
        was_on = self.is_on
        last = 0 if replay is None else len(replay.frames) - 1
        self.is_on = replay is not None and (player.is_playing or player.place < last)
        shown = player.shown
        if self.is_on and shown is not None:
            self._show_block(shown)
        if self.is_on != was_on:
            self.stage.setMinimumHeight(0)
            self.stage.setVisible(self.is_on)
            self.changed.emit()

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

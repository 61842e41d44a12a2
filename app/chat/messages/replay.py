"""The run of an answer once more: a slider under the answer, and in its stead the canvas of the step on show."""

from __future__ import annotations

import contextlib

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from app.canvas.view import CanvasView
from app.chat.messages.board import AnswerBoard
from app.chat.messages.gliding import Leaving
from app.chat.prose.widget import PAD, Prose
from app.chat.view_options import ViewOptions
from app.design import motion
from app.design.layouts import column_of, row_of
from app.player.player import NOTHING, Player
from app.player.scrubber import Scrub
from app.state.chat.attachment import with_attachments
from app.state.chat.conversation import Answer, Turn
from app.state.run.canvas import BlockState
from app.state.run.replay import Replay
from app.state.run.text_map import TextMap, read
from app.system.i18n import tr
from engine import Recording, SafelightError, catalog


class AnswerReplay(QWidget):
    """The row with the slider; ``stage`` is for the canvas and is placed by the answer, as it stands in its stead.

    The run is read at its first use: ``wanted`` asks for it, and ``open`` or ``refuse`` answers.
    """

    wanted = Signal()
    changed = Signal()  # ``is_on``
    moving = Signal(object)  # its turn: another frame comes, which may have another height
    moved = Signal(object)  # its turn: that frame has come
    rebuilt = Signal()  # other controls than before
    pace_chosen = Signal(str)

    def __init__(self, turn: Turn, options: ViewOptions) -> None:
        super().__init__()
        self._turn, self._options = turn, options
        self.left: tuple[Leaving, TextMap] | None = None  # what has just become the answer, until it glides there
        self.is_on = False  # a step of the run is looked at, rather than what it came to
        self.player = Player(self)
        self.scrub = Scrub([self.player], in_line=True)
        self.stage = QWidget()
        self.stage.hide()
        self.said: Prose | None = None  # what the blocks before came to
        self.canvas: CanvasView | None = None
        self.board: AnswerBoard | None = None
        self._said_before = NOTHING  # the block that ``said`` goes up to
        self.setLayout(row_of(self.scrub))
        self.scrub.wanted.connect(self.wanted)
        self.scrub.pace_chosen.connect(self.pace_chosen)
        self.player.placed.connect(self._show)
        self.player.revealed.connect(self._show)
        self.player.playing_changed.connect(self._show)
        self.set_options(options)

    def tab_stops(self) -> list[QWidget]:
        """What Tab goes through, in order."""
        if self.said is None or self.canvas is None or self.board is None:
            return self.scrub.tab_stops()
        return [*self.said.tab_stops(), *self.board.tab_stops(), self.canvas, *self.scrub.tab_stops()]

    def set_options(self, options: ViewOptions) -> None:
        """Change how it is drawn, and how fast it plays."""
        self._options = options
        self.scrub.set_pace(options.pace)
        if self.canvas is not None:
            options.apply(self.canvas)

    # ---------------------------------------------------------------- the run

    def offer(self, answer: Answer) -> None:
        """There is this answer, under way or with a run to be read; one of another is let go of."""
        self.setVisible((answer.is_active and not answer.is_plain) or answer.has_trace)
        self.scrub.set_live(answer.is_active)
        figures = answer.figures
        self.scrub.offer(0 if answer.is_active else max(2, figures.steps + 2 * figures.blocks))

    def open(self, replay: Replay, trace: Recording) -> None:
        """The run is read; what was asked for is done."""
        self._make_stage(trace)
        self._said_before = NOTHING
        self.player.open(trace, replay=replay)

    def refuse(self, why: str) -> None:
        """The run cannot be read."""
        self.scrub.refuse(why)

    def forget(self) -> None:
        """Show the answer, and forget the run, which is read again when it is wanted."""
        self.player.open(None)
        self._show()

    @property
    def place(self) -> int:
        """The frame that is looked at; the first where none is."""
        return self.player.place if self.is_on else 0

    # ---------------------------------------------------------------- showing

    def _make_stage(self, trace: Recording) -> None:
        if self.said is None or self.canvas is None or self.board is None:
            self.said = Prose(tr("Answer before this block"))
            self.said.rebuilt.connect(self.rebuilt)
            self.canvas, self.board = CanvasView(), AnswerBoard()
            self.canvas.setAccessibleName(tr("Canvas of the step on show"))
            inside = row_of(self.canvas, margins=(PAD, 0, PAD, 0))
            self.stage.setLayout(column_of(self.said, self.board, inside, spacing=8))
            self._options.apply(self.canvas)
            self.rebuilt.emit()
        self.canvas.set_piece(trace.piece, trace.is_special)
        self.canvas.set_vocabulary_size(trace.header.model.vocab_size or None)
        self.canvas.setColumns(catalog.traits(trace.header.model.name).canvas_columns)

    @Slot()
    def _show(self) -> None:
        """Show the frame the player is at; at the last one the answer itself."""
        if self.player.replay is None and not self.is_on:
            return
        self.moving.emit(self._turn)
        self._show_frame()
        self.moved.emit(self._turn)

    def reserve(self, pixels: int) -> None:
        """Make the stage higher by so many pixels, until the answer is shown again."""
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
            self.left = None if self.is_on else self._leaving()
            self.stage.setMinimumHeight(0)
            self.stage.setVisible(self.is_on)
            self.changed.emit()

    def _leaving(self) -> tuple[Leaving, TextMap] | None:
        """The canvas of the last block as it stands now, and what it says; None where it does not become text."""
        player, canvas, replay, trace = self.player, self.canvas, self.player.replay, self.player.trace
        if canvas is None or canvas.block is None or replay is None or trace is None or motion.is_reduced():
            return None
        last = replay.record(replay.blocks - 1)
        if last.final is None or canvas.block.block_index != last.index or canvas.visibleRegion().isEmpty():
            return None
        written = read(last.final[: last.text_length].tolist(), player.piece, trace.is_special)
        return Leaving.of(canvas, 0), written

    def _show_block(self, shown: BlockState) -> None:
        """Show a canvas, or the board it is, under what was written before it."""
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
    """What a run had written before a block; empty where that cannot be read."""
    if trace is None or not block:
        return ""
    with contextlib.suppress(SafelightError, IndexError):
        return trace.reply(block - 1).text
    return ""

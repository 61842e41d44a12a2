"""The page of an empty conversation: a short explanation, a recorded run, and suggested prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QFontMetrics, QHideEvent, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLabel, QScrollArea, QSizePolicy, QWidget

import engine
from app.bridge.background import Background
from app.design import motion, themes
from app.design.chip_bar import SuggestionBar
from app.design.controls import button, chain_tabs, flow_of, introduce, label, restyle, show_line
from app.design.fonts import canvas_font, px
from app.design.layouts import STRETCH, Gap, bare, boxed, column_of, row_of, stops_of
from app.player.player import Player
from app.state.run.canvas import BlockState
from app.state.run.replay import Replay, read_run
from app.system.i18n import tr, trn
from app.system.timers import later
from engine import Recording

if TYPE_CHECKING:
    from app.canvas.view import CanvasView

RUN = "times-table"  # file name in the gallery
SPEED = 0.35  # share of the usual speed, to leave time to read
AFTER_PAINT_MS = 250
COLUMNS = 11  # length of its longest line
TEXT, LEAST_TEXT = 12, 6  # pixels at 100 %
PADDING = 22  # pixels around the letters of the last row of cells, which is behind the text and not shown
CANVAS_WIDTH, CANVAS_HEIGHT = 230, 226  # pixels at 100 %, reserved until the run is read
LEAST_ROW_WIDTH = 480  # pixels at 100 %; narrower, the captions are above the canvas
_TOP = Qt.AlignmentFlag.AlignTop
ROW = 40  # pixels at 100 % of a row of suggestions
LEAST_INTRODUCTION = 200  # pixels at 100 % to the left of the buttons


class FirstRun(QWidget):
    """Plays a run from the gallery. Reads it in a thread after the first paint. ``stop`` shows the last frame.

    ``above`` are labels over the captions. Nothing over a caption changes, so that none moves.
    """

    opened = Signal()  # the run has been read, and ``canvas`` shows it

    def __init__(self, *above: QLabel) -> None:
        super().__init__()
        self.player = Player(self)
        self.canvas: CanvasView | None = None
        self._is_stopped = motion.is_reduced()
        self._stage_column = column_of()
        self._stage = boxed(self._stage_column)
        self._stage.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        captions = (
            tr("It begins as noise."),
            tr("Tokens are tried, doubted, taken back."),
            tr("Sure ones stay."),
        )
        self.captions = [label(text, "moment", wrap=True) for text in captions]
        self.figures = label("", "caption", wrap=True, name=tr("Step shown"))
        self.source = label("", "caption", wrap=True)
        self.again = button(tr("Play again"), tr("Play the run again"), clicked=self.play)
        policy = self.again.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.again.setSizePolicy(policy)
        self.again.hide()
        for said in (*above, *self.captions, self.figures, self.source):
            said.setMinimumHeight(1)  # else the layout reserves the height they need in the narrowest column
        foot = row_of((self.source, 1), (self.again, 0, _TOP), spacing=8)
        moments = column_of(*self.captions, spacing=8)
        words = column_of(*above, Gap(4), moments, Gap(4), self.figures, foot, STRETCH, spacing=8)
        self._row = row_of((self._stage, 0, _TOP), (words, 1), spacing=16)
        self.setLayout(self._row)
        self._reader = Background(self, self._open)
        self._later = later(self, lambda: self._reader.ask(_read_first), AFTER_PAINT_MS)
        self._reader.failed.connect(self.hide)
        self.player.placed.connect(self._show)
        self.player.revealed.connect(self._show)
        self.player.playing_changed.connect(lambda playing: self.again.setVisible(not playing))
        motion.changed.connect(self._calm_down)
        themes.changed.connect(self._fit)
        self._mark_captions(-1)
        self._fit()

    @property
    def is_read(self) -> bool:
        return self.canvas is not None

    @Slot()
    def _calm_down(self) -> None:
        if motion.is_reduced():
            self.stop()

    @Slot(object)
    def _open(self, run: tuple[Replay, Recording]) -> None:
        from app.canvas.view import CanvasView  # after the first paint

        replay, trace = run
        self.canvas = canvas = introduce(CanvasView(), tr("Canvas of the run"))
        canvas.set_piece(trace.piece, trace.is_special)
        canvas.setColumns(COLUMNS)
        canvas.set_legend(False)
        canvas.set_calm(False)  # the captions are about the noise
        self._stage_column.addWidget(canvas, 0, _TOP)
        self.source.setText(tr("A recorded run: {prompt}", prompt=trace.header.prompt))
        self.player.set_speed(SPEED)
        self.player.open(trace, 0, replay)
        self._fit()
        if self._is_stopped or not self.isVisible():
            self.stop()
        else:
            self.player.play()
        self.again.setVisible(not self.player.is_playing)
        self.opened.emit()

    @Slot()
    def play(self) -> None:
        self._is_stopped = False
        self.player.pause()
        self.player.go(0)
        self.player.play()

    @Slot()
    def stop(self) -> None:
        """Stops playing and shows the last frame."""
        self._is_stopped = True
        self.player.pause()
        if self.player.replay is not None:
            self.player.go(len(self.player.replay.frames) - 1)

    @Slot()
    def _show(self) -> None:
        block, replay = self.player.shown, self.player.replay
        if block is None or replay is None or self.canvas is None:
            return
        self.canvas.set_block(block)
        self.figures.setText(_figures(block, replay.steps_of(0)))
        self._mark_captions(_moment(block))

    def _mark_captions(self, moment: int) -> None:
        """Marks one caption (an index, -1 for none) as present, earlier ones as past and later ones as to come."""
        for number, caption in enumerate(self.captions):
            tense = "now" if number == moment else "past" if number < moment else "to come"
            if caption.property("tense") != tense:
                restyle(caption, "tense", tense)

    @Slot()
    def _fit(self) -> None:
        """Sizes the canvas by the text size, smaller where the page is narrower than that."""
        share = min(1.0, self.width() / px(CANVAS_WIDTH))
        size = QSize(round(share * px(CANVAS_WIDTH)), px(CANVAS_HEIGHT))
        if self.canvas is not None:
            font = canvas_font(max(LEAST_TEXT, int(share * TEXT)))
            self.canvas.set_font(font)
            whole = self.canvas.minimumSizeHint()
            self.canvas.setFixedHeight(whole.height())
            size = QSize(whole.width(), whole.height() - QFontMetrics(font).height() - PADDING)
        self._stage.setFixedSize(size)
        is_row = self.width() >= px(LEAST_ROW_WIDTH)
        self._row.setDirection(QBoxLayout.Direction.LeftToRight if is_row else QBoxLayout.Direction.BottomToTop)

    def minimumSizeHint(self) -> QSize:
        """Returns no width: the canvas becomes smaller on a narrow page."""
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._fit()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self.is_read and not self._later.isActive() and not self._reader.is_busy:
            self._later.start()

    def hideEvent(self, _event: QHideEvent) -> None:
        self._later.stop()
        self.stop()


def _read_first() -> tuple[Replay, Recording]:
    """Reads the recorded run. Called in a thread."""
    return read_run(next(one.path for one in engine.gallery() if one.path.stem == RUN))


def _moment(block: BlockState) -> int:
    """Returns the index of the caption for a step: noise, doubt, or settled once half of the text has."""
    if not block.steps:
        return 0
    length = block.length if block.outcome is None else len(block.outcome)
    settled = int(block.settled_mask[:length].sum())
    return 2 if block.committed or 2 * settled >= length else 1


def _figures(block: BlockState, steps: int) -> str:
    if not block.steps:
        return tr("Starting from noise")
    if block.committed:
        parts = [tr("Done in {steps}", steps=trn("{count} step", "{count} steps", steps))]
    else:
        parts = [
            tr("Step {step}", step=block.steps),
            tr("{accepted} of {length} sure", accepted=block.accepted_count, length=block.length),
        ]
    if block.taken_back_total:
        parts.append(tr("{count} taken back", count=block.taken_back_total))
    return " · ".join(parts)


def centred(content: QWidget, width: int, side: int) -> QHBoxLayout:
    """Returns a row with the content in the middle, at most ``width`` pixels wide, with ``side`` pixels around."""
    content.setMaximumWidth(width)
    return row_of(STRETCH, (content, 1000), STRETCH, margins=(side, 0, side, 0))


class ChatWelcome(QScrollArea):
    """The welcome page; ``suggestions`` are its suggested prompts."""

    def __init__(self, width: int, side: int) -> None:
        super().__init__(widgetResizable=True)
        bare(introduce(self, tr("Welcome")))
        title = label(tr("Watch the text develop"), "display", wrap=True)
        about = label(
            tr("A diffusion model begins with noise and corrects the whole answer, step by step."),
            "setting",
            wrap=True,
        )
        self.introduction = label("", "caption", wrap=True)
        self.introduction.setMinimumHeight(1)
        self.first_run = FirstRun(title, about)
        self.suggestions = SuggestionBar()
        self.models = button(tr("Models for this machine"), role="plain")
        self.guide = button(tr("Take the guided minute"))
        self._entries = flow_of(self.guide, self.models, gap=16)
        self._introduced = row_of((self.introduction, 1), self._entries, spacing=16)
        parts = self.first_run, self._introduced, self.suggestions
        self._column = column_of(*parts, margins=(8, 10, 8, 0), spacing=6)
        self.content = boxed(self._column)
        self.setWidget(boxed(column_of(centred(self.content, width, side), STRETCH)))
        themes.settled.connect(self._arrange)
        self.first_run.opened.connect(self.order_tabs)

    def introduce(self, text: str) -> None:
        """Shows what the loaded model is for; hides the label for an empty text."""
        show_line(self.introduction, text)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    @Slot()
    def _arrange(self) -> None:
        """Puts the suggestions first where the page is too low to show the first of them below the other parts.

        On a narrow page the buttons stand below the introduction.
        """
        width = self.content.width()
        is_row = width - self._entries.sizeHint().width() >= px(LEAST_INTRODUCTION)
        self._introduced.setDirection(QBoxLayout.Direction.LeftToRight if is_row else QBoxLayout.Direction.TopToBottom)
        above = self._column.totalHeightForWidth(width) - self.suggestions.heightForWidth(width)
        place = 0 if above + px(ROW) > self.viewport().height() else 2
        if self._column.indexOf(self.suggestions) != place:
            self._column.removeWidget(self.suggestions)
            self._column.insertWidget(place, self.suggestions)
            self.order_tabs()

    @Slot()
    def order_tabs(self) -> None:
        """Sets the tab order to that of reading: what comes first on the page, first."""
        chain_tabs(self, stops_of(self.content))

    def set_width(self, width: int) -> None:
        self.content.setMaximumWidth(width)

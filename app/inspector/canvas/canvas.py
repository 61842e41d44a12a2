"""The canvas of the current frame, as a board, or as tokens (calm or raw) in one of the layers.

Follows the player.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QObject, QRect, QSize, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app.board.legend import BoardPane
from app.canvas.accessibility import expose_cells
from app.canvas.heat import Heat
from app.design.controls import ChoiceBox, button, chain_tabs, choice_of, introduce, label, scroller
from app.design.fonts import TEXT_CANVAS, canvas_font, px
from app.design.layouts import STRETCH, column_of, row_of
from app.inspector.canvas.page_cells import SpannedBoard, SpannedCanvas
from app.player.player import NOTHING, Player
from app.state.run.canvas import BlockState
from app.state.run.replay import NOISE, BlockRecord
from app.system.i18n import tr, trn
from engine import Mark, step_number

LayerName = Literal["state", "entropy", "causal", "settling", "taken back"]
LAYERS: tuple[LayerName, ...] = get_args(LayerName)

Shares = NDArray[np.float32]


FONT_SIZES = (30, 24, TEXT_CANVAS)  # pixels at 100 %
CAPTIONED = 480  # pixels at 100 %; from this width on the choice of a layer has a caption
LEAST_CANVAS_SIDE = 200  # pixels at 100 %
RESERVED_TOKENS = 512  # most tokens that the cells are widened for when a block is first shown


def title(layer: LayerName) -> str:
    return {
        "state": tr("State"),
        "entropy": tr("Entropy"),
        "causal": tr("Causal probability"),
        "settling": tr("Step of settling"),
        "taken back": tr("Times taken back"),
    }[layer]


class Seen(NamedTuple):
    """The input of a layer: a block, and its state at the current frame."""

    record: BlockRecord
    step: int  # NOISE before the first step; the record's number of steps at the commit
    now: BlockState


def heat(layer: LayerName, seen: Seen) -> Heat | None:
    """Returns the colours of a layer; None for the states, which have their own shapes and colours."""
    if layer == "state":
        return None
    colours = {"entropy": _entropy, "causal": _causal, "settling": _settling, "taken back": _times_taken_back}[layer](
        seen
    )
    if seen.now.text_length is not None:
        colours.shares[seen.now.text_length :] = np.nan  # no text after that
    return colours


def _nothing(seen: Seen) -> Shares:
    return np.full(seen.now.length, np.nan, dtype=np.float32)


def _entropy(seen: Seen) -> Heat:
    most = float(seen.record.entropy[:, seen.record.counted].max(initial=0.0))
    entropy = seen.now.known_entropy
    shares = _nothing(seen) if entropy is None else _divided(entropy, most)
    return Heat(
        shares,
        tr("entropy"),
        "0",
        tr("{limit} nats (most in this block)", limit=f"{most:.2f}"),
    )


def _causal(seen: Seen) -> Heat:
    """Returns the layer of causal probability. The scale is 1 minus the probability: unlikely cells stand out."""
    causal = seen.now.causal
    shares = _nothing(seen) if causal is None else (1 - causal).astype(np.float32)
    unread = tr("causal probability (ask for a second opinion)")
    name = unread if seen.record.causal is None else tr("causal probability of the finished text")
    return Heat(shares, name, "100 %", "0 %", words=None if causal is not None else lambda _: tr("Not read causally"))


def _settling(seen: Seen) -> Heat:
    settled, steps = seen.record.settled_at, seen.record.steps
    shares = _nothing(seen)
    if steps and seen.step != NOISE:
        reached = settled <= seen.step
        shares[reached] = settled[reached] / max(1, steps - 1)

    def words(index: int) -> str:
        return tr("Settled at step {step} of {steps}", step=step_number(int(settled[index])), steps=steps)

    return Heat(
        shares,
        tr("settled for good at step"),
        "1",
        tr("{count} (no colour: not yet)", count=max(1, steps)),
        words=words,
    )


def _times_taken_back(seen: Seen) -> Heat:
    counts = seen.record.taken_back[:, seen.record.counted].sum(axis=0)
    most = int(counts.max()) if counts.size else 0
    shares = _divided(seen.now.times_taken_back.astype(np.float32), max(1, most))
    shares[seen.now.times_taken_back == 0] = np.nan
    high = trn("{count} time so far", "{count} times so far", most) if most else tr("none in this block")
    return Heat(shares, tr("times taken back"), "0", high)


def _divided(values: NDArray[np.float32], most: float) -> Shares:
    shares: Shares = (values / most if most > 0 else np.zeros_like(values)).astype(np.float32)
    return shares


class InspectorCanvas(QWidget):
    """The canvas with its view controls. Hovered and selected cells are shared with all other views."""

    calm_chosen = Signal(bool)  # the user chose best guesses (True) or noise

    def __init__(self, player: Player) -> None:
        super().__init__()
        self._player = player
        self._font_size = 0  # one of ``FONT_SIZES``; 0 before the first fit
        self._reserved: tuple[int, bool] | None = None
        self._marks: tuple[Mark, ...] = ()
        self.layer: LayerName = "state"
        self.view = introduce(SpannedCanvas(player), tr("Canvas at this step"), id="inspector-canvas")
        self.view.set_calm(player.calm)
        expose_cells(self.view)
        self.board = introduce(SpannedBoard(player), tr("Board at this step"))
        self.pane = BoardPane(self.board)
        # No button group: Tab would reach only one of its buttons.
        self.as_board = button(tr("Board"), tr("Board view"), tip=tr("The Sudoku that is written here"), checkable=True)
        self.calm = button(
            tr("Calm"), tr("Calm view"), tip=tr("The best guess where nothing is accepted"), checkable=True
        )
        self.raw = button(
            tr("Raw"), tr("Raw view"), tip=tr("What stands on the canvas, random tokens included"), checkable=True
        )
        layers = choice_of((layer, title(layer)) for layer in LAYERS)
        self.layers = introduce(layers, tr("Layer of the canvas"), tip=tr("What the colour of a cell shows"))
        self._build()
        self._connect()

    def _build(self) -> None:
        self.layers.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.layers.setMinimumContentsLength(8)
        self._caption = label(tr("Layer"), "caption")
        self._caption.setBuddy(self.layers)
        views, layers = (self.as_board, self.calm, self.raw), (self._caption, (self.layers, 2))
        bar = row_of(*views, STRETCH, *layers, margins=(16, 4, 16, 4), spacing=16)
        self.area = introduce(scroller(self.view, arrows=False), id="canvas-scroll")  # the page handles the arrow keys
        self.setLayout(column_of(bar, (self.area, 3), (self.pane, 3), spacing=0))
        self.area.viewport().installEventFilter(self)
        chain_tabs(self.as_board, (self.calm, self.raw, self.layers, self.view, self.board))
        self._mark_view()

    def _connect(self) -> None:
        player = self._player
        self.as_board.clicked.connect(lambda: player.set_board(True))
        self.calm.clicked.connect(lambda: self._choose_tokens(calm=True))
        self.raw.clicked.connect(lambda: self._choose_tokens(calm=False))
        self.layers.currentIndexChanged.connect(self._choose_layer)
        player.opened.connect(self._on_opened)
        player.placed.connect(self.refresh)
        player.revealed.connect(self._reveal)
        player.selected.connect(self._on_selected)
        player.playing_changed.connect(self._on_playing)
        self._on_playing(player.is_playing)
        player.board_changed.connect(self.refresh)

    def _choose_tokens(self, *, calm: bool) -> None:
        """Shows the tokens in place of a board."""
        self._player.set_board(False)
        self.set_calm(calm)
        self.calm_chosen.emit(calm)

    def set_calm(self, calm: bool) -> None:
        """Sets what stands where nothing is accepted: the best guess (calm), or the noise of the model (raw)."""
        self._player.calm = calm
        self.view.set_calm(calm)
        self.refresh()
        self._mark_view()

    @property
    def shows_board(self) -> bool:
        """True if the current block is a Sudoku and shown as a board."""
        return self._player.board and self.board.placed is not None

    def _mark_view(self) -> None:
        """Shows the board if there is one and it is wanted, and checks the button of the current view."""
        board = self.shows_board
        self.area.setVisible(not board)
        self.pane.setVisible(board)
        self.as_board.setVisible(self.board.placed is not None)
        self.as_board.setChecked(board)
        self.calm.setChecked(not board and self._player.calm)
        self.raw.setChecked(not board and not self._player.calm)

    def set_layer(self, layer: LayerName) -> None:
        self.layers.setCurrentIndex(LAYERS.index(layer))

    @Slot(int)
    def _choose_layer(self, index: int) -> None:
        self.layer = LAYERS[index]
        self.refresh()

    @Slot()
    def _on_opened(self) -> None:
        trace = self._player.trace
        self._reserved = None
        if trace is not None:
            self.view.set_piece(trace.piece, trace.is_special)
            self.view.frame_slots([slot.position for slot in trace.header.slots])
        if self._player.frame is None:
            self.view.set_heat(None)
            self.view.set_block(None)
            self.pane.set_heat(None)
            self.board.place(None, str)
            self.board.set_block(None)
            self._mark_view()

    @Slot()
    def refresh(self) -> None:
        player = self._player
        frame, record, now = player.frame, player.block, player.snapshot
        if frame is None or record is None or now is None:
            return
        other = self.view.block is None or self.view.block.length != now.length
        self._find_board()
        self._reveal()
        if self._reserved != (frame.block, player.calm):
            self._reserved = (frame.block, player.calm)
            self._reserve()
        if other:
            self._fit_font()
        colors = heat(self.layer, Seen(record, frame.step, now))
        self.view.set_heat(colors)
        self.pane.set_heat(colors)
        self._mark_cells()

    def _find_board(self) -> None:
        """Shows the Sudoku of the block, if it writes one."""
        trace = self._player.trace
        if trace is not None:
            before = self.board.placed
            self.board.place(self._player.sudoku, trace.piece)
            if self.board.placed != before:
                self.board.select_position(self._player.selection)
        if self.shows_board != self.pane.isVisibleTo(self):
            self._mark_view()

    @Slot()
    def _reveal(self) -> None:
        shown = self._player.shown
        self.view.set_block(shown)
        if self.board.placed is not None:
            self.board.set_block(shown)

    def _reserve(self) -> None:
        """Makes the cells wide enough for the whole block, so that they do not move while it develops."""
        record = self._player.block
        if record is not None:
            tokens = np.unique(record.argmax if self._player.calm and record.steps else record.noise)
            self.view.reserve(tokens[:RESERVED_TOKENS].tolist())

    def set_marked(self, marks: Sequence[Mark]) -> None:
        """Tints the spans that are to be rewritten, if they lie in the current block."""
        self._marks = tuple(marks)
        self._mark_cells()

    def _mark_cells(self) -> None:
        now, frame = self._player.snapshot, self._player.frame
        mask = np.zeros(0 if now is None else now.length, dtype=np.bool_)
        for mark in self._marks:
            if frame is not None and mark.block == frame.block:
                mask[mark.start : mark.stop] = True
        self.view.set_marks(mask)
        self.board.set_marks(mask)

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._caption.setVisible(self.width() >= px(CAPTIONED))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(LEAST_CANVAS_SIDE), px(LEAST_CANVAS_SIDE))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self._fit_font()
        return super().eventFilter(watched, event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._font_size = 0
            self._fit_font()

    def _fit_font(self) -> None:
        """Chooses the largest font with which the whole block is visible, or the smallest one."""
        if self._player.frame is None:
            return
        room = self.area.viewport().size()
        for size in FONT_SIZES:
            if size != self._font_size:
                self._font_size = size
                self.view.set_font(canvas_font(size))
                self._reserve()
            if self.view.heightForWidth(room.width()) <= room.height():
                break

    @Slot(int)
    def _on_selected(self, position: int) -> None:
        if position != NOTHING and position < self.view.grid.count:
            rect = QRect(*self.view.grid.rect_of(position))
            self.area.ensureVisible(rect.center().x(), rect.center().y(), 8, rect.height())

    @Slot(bool)
    def _on_playing(self, playing: bool) -> None:
        # A tint shows the changes of a step; while the user scrubs it would lag behind.
        for view in (self.view, self.board):
            view.set_still(not playing)

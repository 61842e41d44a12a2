"""A second run beside the one that is looked at: the same frame of both, cells that differ marked."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from PySide6.QtCore import QRect, Qt, Signal, Slot
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.canvas.view import CanvasView
from app.controls import button, label
from app.inspector.player import Player
from app.language import tr, trn
from app.state.canvas_state import Mask
from app.state.compare import counterpart, differing, first_divergence
from app.state.replay import NOISE, Frame, Replay
from app.theme import DARKROOM, Theme, color
from engine import GenerationConfig

CORNER = 5  # pixels of a mark's arms


class MarkedCanvas(CanvasView):
    """A canvas with some cells in brackets."""

    def __init__(self) -> None:
        super().__init__()
        self._marks: Mask = np.zeros(0, dtype=np.bool_)
        self._ink = DARKROOM.accent

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self._ink = theme.accent

    def set_marks(self, marks: Mask) -> None:
        """(C,) which cells to mark."""
        if not np.array_equal(marks, self._marks):
            self._marks = marks
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.block is None or not self._marks.any():
            return
        painter = QPainter(self)
        painter.setPen(QPen(color(self._ink), 2))
        for index in np.flatnonzero(self._marks[: self.block.length]).tolist():
            _bracket(painter, QRect(*self._geometry.rect_of(index)).adjusted(1, 1, -1, -1))
        painter.end()


def _bracket(painter: QPainter, rect: QRect) -> None:
    """Two opposite corners, so that it is told from every state by its shape."""
    painter.drawLine(rect.left(), rect.top(), rect.left() + CORNER, rect.top())
    painter.drawLine(rect.left(), rect.top(), rect.left(), rect.top() + CORNER)
    painter.drawLine(rect.right(), rect.bottom(), rect.right() - CORNER, rect.bottom())
    painter.drawLine(rect.right(), rect.bottom(), rect.right(), rect.bottom() - CORNER)


def run_title(trace: Any) -> str:
    """What a run is called where two stand beside each other."""
    return tr("{model}, seed {seed}", model=trace.model_name, seed=trace.seed)


def settings_that_differ(one: GenerationConfig, other: GenerationConfig) -> list[tuple[str, Any, Any]]:
    """Name, value in one, value in the other."""
    names = [field.name for field in dataclasses.fields(one)]
    return [(n, getattr(one, n), getattr(other, n)) for n in names if getattr(one, n) != getattr(other, n)]


class Compare(QWidget):
    """The run of ``player`` at the left, another at the right; going through the left takes the right along."""

    other_asked = Signal()  # choose a run to compare with

    def __init__(self, player: Player) -> None:
        super().__init__()
        self._player = player
        self._other: Any = None
        self._replay: Replay | None = None
        self._divergence: Frame | None = None
        self.setAccessibleName(tr("Two runs side by side"))
        self.choose = button(tr("Choose a run…"), tr("Choose a run to compare with"), role="plain")
        self.choose.clicked.connect(self.other_asked)
        self.diverge = button(tr("First divergence"), tr("Go to where the two runs first differ"), role="plain")
        self.diverge.clicked.connect(self.go_to_divergence)
        self.facts = label(
            tr("Compare this run with another: the same seed with one setting changed, a fork, another model."),
            "caption",
            wrap=True,
        )
        self.left, self.right = MarkedCanvas(), MarkedCanvas()
        self.left_title, self.right_title = label("", "setting"), label("", "setting")
        self._sides = QWidget()
        sides = QHBoxLayout(self._sides)
        sides.setContentsMargins(0, 0, 0, 0)
        sides.setSpacing(16)
        for title, canvas in ((self.left_title, self.left), (self.right_title, self.right)):
            side = QVBoxLayout()
            side.addWidget(title)
            side.addWidget(canvas, 0, Qt.AlignmentFlag.AlignTop)
            side.addStretch(1)
            sides.addLayout(side, 1)
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(self.choose)
        top.addWidget(self.diverge)
        top.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 16, 16, 16)
        column.setSpacing(8)
        column.addLayout(top)
        column.addWidget(self.facts)
        column.addWidget(self._sides, 1)
        self.left.setAccessibleName(tr("Canvas of the run at the left"))
        self.right.setAccessibleName(tr("Canvas of the run at the right"))
        player.opened.connect(self._opened)
        player.placed.connect(self._show)
        player.grown.connect(self._compare)
        self._opened()

    def set_theme(self, theme: Theme) -> None:
        for canvas in (self.left, self.right):
            canvas.set_theme(theme)

    def set_other(self, trace: Any) -> None:
        """Compare with this run; None takes it away."""
        self._other = trace
        self._replay = None if trace is None else Replay(trace)
        if trace is not None:
            self.right.set_piece(trace.piece, trace.is_special)
        self._compare()

    @Slot()
    def _opened(self) -> None:
        if self._player.trace is not None:
            self.left.set_piece(self._player.trace.piece, self._player.trace.is_special)
        self._compare()

    @Slot()
    def _compare(self) -> None:
        one, other = self._player.replay, self._replay
        both = one is not None and other is not None
        self._divergence = first_divergence(one, other) if one is not None and other is not None else None
        self._sides.setVisible(both)
        self.diverge.setVisible(both)
        self.diverge.setEnabled(self._divergence is not None)
        self.choose.setEnabled(one is not None)
        if one is not None and other is not None:
            self.left_title.setText(run_title(self._player.trace))
            self.right_title.setText(run_title(self._other))
        self._show()

    @Slot()
    def go_to_divergence(self) -> None:
        """Show the first frame that differs, or the last one before it where only the other run has it."""
        replay, found = self._player.replay, self._divergence
        if replay is None or found is None:
            return
        if found in replay.frames:
            self._player.go(replay.place(found))
        elif found.block < replay.blocks:
            self._player.go_to_block(found.block)
        else:
            self._player.go(len(replay.frames) - 1)

    @Slot()
    def _show(self) -> None:
        frame, replay = self._player.frame, self._replay
        if frame is None or replay is None:
            return
        place = counterpart(frame, replay)
        mine, theirs = self._player.snapshot, None if place is None else replay.snapshot(place)
        self.left.set_block(mine)
        self.right.set_block(theirs)
        marks = differing(mine, theirs, calm=True)
        self.left.set_marks(marks)
        self.right.set_marks(differing(theirs, mine, calm=True))
        self.facts.setText(" ".join(self._facts(int(marks.sum()), len(marks))))

    def _facts(self, count: int, length: int) -> list[str]:
        said = [
            trn(
                "{count} of {length} cells differs here.",
                "{count} of {length} cells differ here.",
                count,
                length=length,
            )
        ]
        if self._divergence is None:
            said.append(tr("The two runs are the same throughout."))
        elif self._divergence.step == NOISE:
            said.append(tr("They first differ in the noise of block {block}.", block=self._divergence.block + 1))
        else:
            where = {"block": self._divergence.block + 1, "step": self._divergence.step}
            said.append(tr("They first differ at block {block}, step {step}.", **where))
        for name, one, other in settings_that_differ(self._player.trace.config, self._other.config):
            said.append(tr("{name}: {one} and {other}.", name=name, one=one, other=other))
        return said

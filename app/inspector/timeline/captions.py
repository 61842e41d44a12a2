"""A caption of what happens at the current frame, with buttons that go from event to event."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QWidget

from app.design import icons
from app.design.controls import Elided, button
from app.design.layouts import row_of
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4
from app.inspector.story_words import Caption, caption
from app.inspector.timeline.overview import Overview
from app.player.player import NOTHING, Player
from app.state.run.replay import NOISE, Frame
from app.system.i18n import tr


class Captions(QWidget):
    """The caption and its buttons. Follows the player. Events are defined by ``_is_event``."""

    def __init__(self, player: Player, overview: Overview, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("transport")  # styled as a part of the transport
        self._player, self._overview = player, overview
        self.caption = Caption("")
        self.text = Elided("caption-track")
        self.back = button("", tr("Previous event"), role="plain", tip=tr("Previous event (Shift+N)"))
        self.on = button("", tr("Next event"), role="plain", tip=tr("Next event (N)"))
        icons.set_icon(self.back, "chevron-left")
        icons.set_icon(self.on, "chevron-right")
        row = row_of(margins=(SPACE_4, 0, SPACE_4, SPACE_2), spacing=SPACE_1)
        self.setLayout(row)
        for made in (self.back, self.on):
            made.setObjectName("transport-button")
            row.addWidget(made)
        row.addSpacing(SPACE_2)
        row.addWidget(self.text, 1)
        self.back.clicked.connect(lambda: self.go(-1))
        self.on.clicked.connect(lambda: self.go(1))
        player.opened.connect(self._show)
        player.grown.connect(self._show)
        player.placed.connect(self._show)
        self._show()

    @Slot()
    def _show(self) -> None:
        frame, record, trace = self._player.frame, self._player.block, self._player.trace
        self.caption = Caption("")
        if frame is not None and record is not None and trace is not None:
            self.caption = caption(record, frame, trace)
        self.text.set_whole(self.caption.text)

    def go(self, direction: int) -> None:
        """Goes to the nearest event after (1) or before (-1) the current frame, and selects the cell it concerns."""
        place = self._next(direction)
        if place is None:
            return
        self._player.pause()
        self._player.go(place)
        if self.caption.position != NOTHING:
            self._player.select(self.caption.position)

    def _next(self, direction: int) -> int | None:
        replay = self._player.replay
        frames: Sequence[Frame] = [] if replay is None else replay.frames
        places = range(self._player.place + direction, len(frames) if direction > 0 else -1, direction)
        return next((place for place in places if self._is_event(frames[place])), None)

    def _is_event(self, frame: Frame) -> bool:
        """True if a round begins, a cell is remelted, a block ends, or a decision is read at this frame.

        False for blocks whose figures are not known yet.
        """
        figures, replay = self._overview[frame.block], self._player.replay
        if frame.step == NOISE or figures is None:
            return False
        if replay is not None and replay.is_decision:
            return True
        return frame.step in figures.rounds or frame.step >= figures.steps or bool(figures.remelts[frame.step])

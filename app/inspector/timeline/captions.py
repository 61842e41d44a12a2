"""What happens at the frame on show, in plain words, from the events of the run; and going from event to event."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.design import icons
from app.design.controls import Elided, button
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4
from app.inspector.story_words import Caption, caption
from app.inspector.timeline.overview import Overview
from app.player.player import NOTHING, Player
from app.state.run.replay import NOISE, Frame
from app.system.i18n import tr


class Captions(QWidget):
    """Follows the player. Its buttons go to where something was taken back, and to where a block ends."""

    def __init__(self, player: Player, overview: Overview, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("transport")  # it is a part of that
        self._player, self._overview = player, overview
        self.caption = Caption("")
        self.text = Elided("caption-track")
        self.back = button("", tr("Previous event"), role="plain", tip=tr("Previous event (Shift+N)"))
        self.on = button("", tr("Next event"), role="plain", tip=tr("Next event (N)"))
        icons.set_icon(self.back, "chevron-left")
        icons.set_icon(self.on, "chevron-right")
        row = QHBoxLayout(self)
        row.setContentsMargins(SPACE_4, 0, SPACE_4, SPACE_2)
        row.setSpacing(SPACE_1)
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
        """Go to the nearest event after (1) or before (-1) the frame on show, and select the cell that it is about."""
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
        """Whether a round begins or something is taken back there, as far as is known, or a block ends or is read."""
        figures, replay = self._overview[frame.block], self._player.replay
        if frame.step == NOISE or figures is None:
            return False
        if replay is not None and replay.is_decision:
            return True
        begins = any(one.step == frame.step for one in figures.rounds)
        return begins or frame.step >= figures.steps or bool(figures.remelts[frame.step])

"""The controls of the player: buttons, speed, the timeline, and the current frame in words."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QKeySequence, QResizeEvent
from PySide6.QtWidgets import QPushButton, QWidget

from app.canvas.legend import Legend
from app.design import icons
from app.design.choice_box import ChoiceBox
from app.design.controls import Elided, button, chain_tabs
from app.design.fonts import px
from app.design.layouts import column_of, row_of
from app.inspector.keys import KEY_ACTIONS
from app.inspector.timeline.overview import Overview
from app.inspector.timeline.timeline import Timeline, key_entries
from app.inspector.words import frame_words
from app.player.player import NOTHING, SPEEDS, Player
from app.system.i18n import tr


class Transport(QWidget):
    """The controls. Each key has a button, and each button a name."""

    def __init__(self, player: Player, overview: Overview, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("transport")
        self._player, self._overview = player, overview
        self._is_explained = True  # the timeline has marks
        self.buttons: dict[str, QPushButton] = {}
        self.timeline = Timeline(player, overview)
        self.key = Legend()
        self.key.set_entries(key_entries())
        self.frame = Elided("frame")
        self.speed = ChoiceBox()
        for speed in SPEEDS:
            self.speed.addItem(tr("{speed}×", speed=f"{speed:g}"), speed)
        self.speed.setCurrentIndex(SPEEDS.index(1.0))
        self.speed.setAccessibleName(tr("Speed"))
        self.speed.setToolTip(tr("How fast the steps follow each other; at 1× a block takes two to four seconds"))
        self._lay_out()
        self.speed.activated.connect(self._choose_speed)
        player.opened.connect(self._show_key)
        player.opened.connect(self._show)
        player.grown.connect(self._show)
        player.placed.connect(self._show)
        player.selected.connect(self._show)
        player.playing_changed.connect(self._show_playing)
        self._show_playing(False)
        player.speed_changed.connect(self._show_speed)
        self._show()

    def _lay_out(self) -> None:
        row = row_of(spacing=4)
        for action in KEY_ACTIONS:
            if not action.icon:
                continue
            made = button("", tr(action.title), role="plain", tip=_tip(tr(action.title), action.key))
            made.setObjectName("transport-button")
            # A click does not move the keyboard focus, so that the page still gets the arrow keys.
            made.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            made.clicked.connect(partial(self.run, action.id))
            self.buttons[action.id] = made
            row.addWidget(made)
        row.addSpacing(4)
        row.addWidget(self.speed)
        row.addSpacing(12)
        row.addWidget(self.frame, 1)
        row.addWidget(self.key, 1)
        self.setLayout(column_of(self.timeline, row, margins=(16, 4, 16, 8), spacing=0))
        chain_tabs(self.timeline, [*self.buttons.values(), self.speed])

    def run(self, action: str) -> None:
        """Runs an action by its id."""
        player = self._player
        match action:
            case "first":
                player.step(-player.place)
            case "change-back" | "change-on":
                player.next_change(-1 if action == "change-back" else 1)
            case "back" | "on":
                player.step(-1 if action == "back" else 1)
            case "play":
                player.toggle()
            case "last":
                player.step(self.timeline.maximum())

    @Slot(int)
    def _choose_speed(self, index: int) -> None:
        self._player.set_speed(SPEEDS[index])

    @Slot()
    def _show(self) -> None:
        player = self._player
        frame = player.frame
        self.setEnabled(frame is not None)
        if frame is None:
            self.frame.set_whole("")
            return
        reads = 0 if player.replay is None else player.replay.read_count
        self.frame.set_whole(frame_words(frame, self._overview.steps[frame.block], player.snapshot, reads))
        for action in ("change-back", "change-on"):
            self.buttons[action].setEnabled(player.selection != NOTHING)

    @Slot()
    def _show_key(self) -> None:
        """Shows the key of the timeline's marks. It is hidden for decisions, which have no such marks."""
        header = None if self._player.trace is None else self._player.trace.header
        self._is_explained = header is None or header.decision is None
        self._fit_key()

    def _fit_key(self) -> None:
        self.key.setVisible(self._is_explained and self.width() >= px(1200))

    @Slot(bool)
    def _show_playing(self, playing: bool) -> None:
        made = self.buttons["play"]
        title = tr("Pause") if playing else tr("Play")
        made.setAccessibleName(title)
        tip = _tip(title, "Space")
        made.setToolTip(tip)
        made.setAccessibleDescription(tip)
        self._set_icons()

    @Slot(float)
    def _show_speed(self, speed: float) -> None:
        nearest = min(range(len(SPEEDS)), key=lambda index: abs(SPEEDS[index] - speed))
        self.speed.setCurrentIndex(nearest)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_key()

    def _set_icons(self) -> None:
        for action in KEY_ACTIONS:
            if action.icon:
                name = "pause" if action.id == "play" and self._player.is_playing else action.icon
                icons.set_icon(self.buttons[action.id], name)


def _tip(title: str, key: str) -> str:
    return tr("{title} ({key})", title=title, key=QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText))

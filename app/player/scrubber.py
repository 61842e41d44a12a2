"""Going through one run or several in step: a slider, three buttons and the step in words. Knows players, no board."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QSlider, QVBoxLayout, QWidget

from app.design import icons
from app.design.controls import button, label
from app.design.tokens import DARKROOM, Theme
from app.player.player import FRAME_MS, Player
from app.state.run.replay import NOISE
from app.system.i18n import tr, trn
from engine import step_number

LONGEST_MS = 8000  # a long run is played faster, so that it ends while one watches
LEAST_MS = 40


class StepSlider(QSlider):
    """A slider whose arrows go a frame on or back, whatever the desktop's direction of sliders."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Space:
            event.ignore()  # it plays
        else:
            super().keyPressEvent(event)


class Scrub(QWidget):
    """One place for all players: who has fewer frames stays at the end. The longest run says what frame it is."""

    moved = Signal(int)  # the frame on show, by whatever means

    def __init__(self, players: Sequence[Player], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._players = tuple(players)
        self._theme = DARKROOM
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._tick)
        self._live: Player | None = None
        self.slider = StepSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName(tr("Frame of the run"))
        self.slider.setAccessibleDescription(tr("The arrow keys go to the step before or after, Space plays."))
        self.slider.setSingleStep(1)
        self.slider.setPageStep(5)
        self.play = button("", tr("Play the run"), role="plain")
        self.back = button("", tr("One step back"), role="plain", tip=tr("One step back"))
        self.on = button("", tr("One step on"), role="plain", tip=tr("One step on"))
        for made in (self.play, self.back, self.on):
            made.setObjectName("transport-button")
        self.words = label("", "caption")
        self.words.setAccessibleName(tr("Frame on show"))
        self.words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        row = QHBoxLayout()
        row.setSpacing(4)
        for made in (self.back, self.play, self.on):
            row.addWidget(made)
        row.addSpacing(8)
        row.addWidget(self.slider, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(row)
        column.addWidget(self.words)
        self.play.clicked.connect(self.toggle)
        self.back.clicked.connect(self._go_back)
        self.on.clicked.connect(self._go_on)
        self.slider.valueChanged.connect(self._go)
        self.slider.sliderPressed.connect(self.pause)
        for player in self._players:
            player.opened.connect(self._show)
            player.grown.connect(self._show)
            player.placed.connect(self._show)
        self._show()

    @property
    def frames(self) -> int:
        """Frames of the longest run."""
        return max((_frames(player) for player in self._players), default=0)

    def follow(self, player: Player | None) -> None:
        """A run is under way in this player: the slider goes along, and moves no other. None: all are over."""
        self._live = player
        self.pause()
        if player is None and self.frames:
            self._go(self.frames - 1)
        self._show()

    # ---------------------------------------------------------------- going

    @Slot(int)
    def _go(self, place: int) -> None:
        for player in self._players if self._live is None else (self._live,):
            player.go(place)
        self._show()
        self.moved.emit(place)

    def step(self, by: int) -> None:
        """Go on by frames, back with a negative number."""
        self.pause()
        self.slider.setValue(self.slider.value() + by)

    @Slot()
    def _go_back(self) -> None:
        self.step(-1)

    @Slot()
    def _go_on(self) -> None:
        self.step(1)

    @property
    def is_playing(self) -> bool:
        return self._timer.isActive()

    @Slot()
    def toggle(self) -> None:
        """Play or pause; at the end from the beginning."""
        if self.is_playing:
            self.pause()
        elif self._live is None and self.frames > 1:
            if self.slider.value() >= self.slider.maximum():
                self.slider.setValue(0)
            self._timer.start(max(LEAST_MS, min(FRAME_MS, LONGEST_MS // self.frames)))
            self._set_icons()

    @Slot()
    def pause(self) -> None:
        if self.is_playing:
            self._timer.stop()
            self._set_icons()

    @Slot()
    def _tick(self) -> None:
        self.slider.setValue(self.slider.value() + 1)
        if self.slider.value() >= self.slider.maximum():
            self.pause()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Space and event.modifiers() == Qt.KeyboardModifier.NoModifier:
            self.toggle()
        else:
            super().keyPressEvent(event)

    # ---------------------------------------------------------------- showing

    @Slot()
    def _show(self) -> None:
        longest = self._live or max(self._players, key=_frames)
        frames = _frames(longest)
        self.slider.blockSignals(True)
        self.slider.setRange(0, max(0, frames - 1))
        self.slider.setValue(longest.place)
        self.slider.blockSignals(False)
        self.setEnabled(frames > 1)
        self.play.setEnabled(frames > 1 and self._live is None)
        self.back.setEnabled(longest.place > 0)
        self.on.setEnabled(longest.place < frames - 1)
        text = frame_words(longest)
        if text != self.words.text():
            self.words.setText(text)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._set_icons()

    def _set_icons(self) -> None:
        title = tr("Pause the run") if self.is_playing else tr("Play the run")
        self.play.setAccessibleName(title)
        self.play.setToolTip(tr("{title} (Space)", title=title))
        icons.set_icon(self.play, "pause" if self.is_playing else "play", self._theme.ink)
        icons.set_icon(self.back, "step-backward", self._theme.ink)
        icons.set_icon(self.on, "step-forward", self._theme.ink)


def _frames(player: Player) -> int:
    return 0 if player.replay is None else len(player.replay.frames)


def frame_words(player: Player) -> str:
    """Which frame of its run a player shows."""
    frame, snapshot, record = player.frame, player.snapshot, player.block
    if frame is None or snapshot is None or record is None:
        return ""
    if frame.step == NOISE:
        return tr("Noise, before the first step")
    if snapshot.committed:
        return trn("Committed after {count} step", "Committed after {count} steps", record.steps)
    return tr("After {step} of {steps} steps", step=step_number(frame.step), steps=record.steps)

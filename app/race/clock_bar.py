"""The controls that replay a finished race: a play button, a slider over the engine's seconds, and the time as text."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QSlider, QWidget

from app.design import icons
from app.design.controls import Elided, button, label
from app.design.layouts import row_of
from app.race.clock import RaceClock
from app.system.i18n import tr

TICKS = 10_000  # slider steps over the whole race
CLOCK_KEYS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Space)


class ClockSlider(QSlider):
    """A slider that leaves the keys of the clock to its parent."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in CLOCK_KEYS:
            event.ignore()
        else:
            super().keyPressEvent(event)


class ClockBar(QWidget):
    """Shows and controls a ``RaceClock``."""

    def __init__(self, clock: RaceClock) -> None:
        super().__init__()
        self._clock = clock
        self.play = button("", tr("Play the race"), role="plain")
        self.play.setObjectName("transport-button")
        self.slider = ClockSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, TICKS)
        self.slider.setPageStep(TICKS // 10)
        self.slider.setAccessibleName(tr("Time of the race"))
        self.slider.setAccessibleDescription(
            tr("The arrow keys go to the previous or next step of any lane, Space plays.")
        )
        self.words = Elided("caption")
        self.setLayout(row_of(label(tr("Replay"), "setting"), self.play, (self.slider, 3), (self.words, 2), spacing=8))
        self.play.clicked.connect(clock.toggle)
        self.slider.valueChanged.connect(self._go)
        self.slider.sliderPressed.connect(clock.pause)
        clock.moved.connect(self.refresh)
        clock.playing_changed.connect(self._set_icon)
        self._set_icon()

    @Slot()
    def refresh(self) -> None:
        """Shows the clock's current time."""
        clock = self._clock
        has_race = clock.end > 0
        self.slider.blockSignals(True)
        self.slider.setValue(round(TICKS * clock.seconds / clock.end) if has_race else 0)
        self.slider.blockSignals(False)
        self.play.setEnabled(has_race)
        self.slider.setEnabled(has_race)
        said = tr("{seconds} of {end} s", seconds=f"{clock.seconds:.3f}", end=f"{clock.end:.3f}")
        self.words.set_whole(said if has_race else "")

    @Slot(int)
    def _go(self, ticks: int) -> None:
        self._clock.pause()
        self._clock.go(self._clock.end * ticks / TICKS)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and Right step to the previous or next frame of any lane; Space plays or pauses."""
        if event.key() not in CLOCK_KEYS or event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            super().keyPressEvent(event)
        elif event.key() == Qt.Key.Key_Space:
            self._clock.toggle()
        else:
            self._clock.step(1 if event.key() == Qt.Key.Key_Right else -1)

    @Slot()
    def _set_icon(self) -> None:
        title = tr("Pause the race") if self._clock.is_playing else tr("Play the race")
        self.play.setAccessibleName(title)
        self.play.setToolTip(tr("{title} (Space)", title=title))
        icons.set_icon(self.play, "pause" if self._clock.is_playing else "play")
        self.refresh()

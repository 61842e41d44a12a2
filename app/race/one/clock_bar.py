"""Plays all lanes of a race that is over by one clock: a button, a slider over the engine's seconds, and these."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QSlider, QWidget

from app.design import icons
from app.design.controls import button, label
from app.race.one.clock import RaceClock
from app.race.words import rate_words
from app.system.i18n import tr

TICKS = 10_000  # of the slider, over the whole race
CLOCK_KEYS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Space)


class ClockSlider(QSlider):
    """Leaves the keys of the clock to what it stands in."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in CLOCK_KEYS:
            event.ignore()
        else:
            super().keyPressEvent(event)


class ClockBar(QWidget):
    """Shows a ``RaceClock``, and moves it."""

    def __init__(self, clock: RaceClock, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._clock = clock
        self.play = button("", tr("Play the race"), role="plain")
        self.play.setObjectName("transport-button")
        self.slider = ClockSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, TICKS)
        self.slider.setPageStep(TICKS // 10)
        self.slider.setAccessibleName(tr("Moment of the race"))
        self.slider.setAccessibleDescription(
            tr("The arrow keys go to the step before or after of any lane, Space plays.")
        )
        self.words = label("", "caption")
        self.words.setAccessibleName(tr("Moment on show"))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.play)
        row.addWidget(self.slider, 1)
        row.addWidget(self.words)
        self.play.clicked.connect(clock.toggle)
        self.slider.valueChanged.connect(self._go)
        self.slider.sliderPressed.connect(clock.pause)
        clock.moved.connect(self.refresh)
        clock.playing_changed.connect(self._set_icon)
        self._fit()
        self._set_icon()

    def _fit(self) -> None:
        """Room for what is said of most races, so that the slider keeps its length."""
        longest = f"{_moment(99.999, 99.999)} · {rate_words(0.01)}"
        self.words.setMinimumWidth(self.words.fontMetrics().horizontalAdvance(longest))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit()

    @Slot()
    def refresh(self) -> None:
        """Show the moment that the clock shows."""
        clock = self._clock
        has_race = clock.end > 0
        self.slider.blockSignals(True)
        self.slider.setValue(round(TICKS * clock.seconds / clock.end) if has_race else 0)
        self.slider.blockSignals(False)
        self.play.setEnabled(has_race)
        self.slider.setEnabled(has_race)
        said = _moment(clock.seconds, clock.end) if has_race else ""
        slower = rate_words(clock.rate) if clock.is_playing else ""
        self.words.setText(" · ".join(filter(None, (said, slower))))

    @Slot(int)
    def _go(self, ticks: int) -> None:
        self._clock.pause()
        self._clock.go(self._clock.end * ticks / TICKS)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and right go to the next moment at which a lane has another frame, or the one before; Space plays."""
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


def _moment(seconds: float, end: float) -> str:
    return tr("{seconds} of {end} s", seconds=f"{seconds:.3f}", end=f"{end:.3f}")

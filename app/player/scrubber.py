"""Controls to go through a run: a slider, buttons and the frame in words. Knows no board."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QSignalBlocker, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QSlider, QWidget

from app.design.controls import ChoiceBox, introduce, label
from app.design.icons import set_icon, transport_button
from app.design.layouts import Gap, column_of, row_of
from app.player.player import Player
from app.settings.fields import choice_box
from app.settings.values import PACE
from app.state.run.replay import NOISE
from app.system.i18n import tr
from engine import step_number


class StepSlider(QSlider):
    """A slider over frames that leaves the Space key to its parent, which plays."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Space:
            event.ignore()  # the parent plays
        else:
            super().keyPressEvent(event)


LEAST_SLIDER = 160  # pixels, with the pace next to it
ROW_GAPS = 32


class Scrub(QWidget):
    """Moves a player, plays its run, and names its frame.

    For a run that is read on first use, ``offer`` sets its length, and ``wanted`` then asks for the run.
    """

    wanted = Signal()
    pace_chosen = Signal(str)  # a value of the declared setting

    def __init__(self, player: Player, *, in_line: bool = False) -> None:
        """Creates the controls; ``in_line`` puts words and pace next to the slider instead of under it."""
        super().__init__()
        self._player = player
        self._in_line = in_line
        self._is_live = False
        self._offered = 0  # frames of a run that is not read yet
        self._first_use: Callable[[], None] | None = None  # called once it is read
        self.slider = introduce(
            StepSlider(Qt.Orientation.Horizontal),
            tr("Step of the run"),
            tr("The arrow keys go to the step before or after, Space plays."),
        )
        self.slider.setPageStep(5)
        self.play = transport_button("play", tr("Play the run"), "", self.toggle)
        back, on = tr("One step back"), tr("One step on")
        self.back = transport_button("step-backward", back, back, lambda: self.step(-1))
        self.on = transport_button("step-forward", on, on, lambda: self.step(1))
        self.words = label("", "caption", name=tr("This step"))
        self.pace = choice_box(PACE)
        self.pace.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToContents)  # as wide as its longest text
        self.pace.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        policy = self.slider.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # the pace keeps its place
        self.slider.setSizePolicy(policy)
        self._lay_out()
        self._connect()
        self._show()
        self._set_icons()

    def _lay_out(self) -> None:
        steps = (self.back, self.play, self.on, Gap(8), (self.slider, 1), Gap(4))
        words = (self.words, Gap(4)) if self._in_line else ()
        self._row, self._below = row_of(*steps, *words, self.pace, spacing=4), row_of(spacing=4)
        self.setLayout(column_of(self._row, self._below, spacing=0))
        if not self._in_line:
            self.words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
            self._below.addWidget(self.words, 1)
        self._fit_words()

    def resizeEvent(self, _event: QResizeEvent) -> None:
        """Puts the pace below where the slider would be too short next to it."""
        if self._in_line:
            return
        buttons = sum(one.sizeHint().width() for one in (self.back, self.play, self.on, self.pace))
        row = self._row if self.width() - buttons - ROW_GAPS >= LEAST_SLIDER else self._below
        if row.indexOf(self.pace) < 0:
            row.addWidget(self.pace)  # which takes it out of the other one

    def _connect(self) -> None:
        self.slider.valueChanged.connect(self._go)
        self.slider.sliderPressed.connect(self._player.pause)
        self.pace.activated.connect(lambda: self.pace_chosen.emit(self.pace.currentData()))
        player = self._player
        player.opened.connect(self._opened)
        player.grown.connect(self._show)
        player.placed.connect(self._show)
        player.playing_changed.connect(self._set_icons)

    @property
    def frames(self) -> int:
        return 0 if self._player.replay is None else len(self._player.replay.frames)

    def follow(self, is_live: bool) -> None:
        """Follows a run while it is live; its end is shown when it is over."""
        self._player.pause()
        self._is_live = is_live
        if not is_live and self.frames:
            self._go(self.frames - 1)
        self._show()

    def offer(self, frames: int) -> None:
        """Offers a run with this number of frames that is not read yet; the slider stands at its end."""
        self._offered = frames
        self._show()

    def refuse(self, why: str) -> None:
        """Withdraws the offered run, which cannot be read, and shows why."""
        self._offered, self._first_use = 0, None
        self._show()
        self.words.setText(why)

    def set_live(self, live: bool) -> None:
        """Hides all but the choice of pace while a run is live elsewhere."""
        for part in (self.back, self.play, self.on, self.slider, self.words):
            part.setVisible(not live)

    @Slot(int)
    def _go(self, place: int) -> None:
        if self._asks_first(lambda: self._go(place)):
            return
        self._player.go(place)
        self._show()

    def step(self, by: int) -> None:
        """Moves by frames, back with a negative number."""
        self._player.pause()
        self.slider.setValue(self.slider.value() + by)

    @property
    def is_playing(self) -> bool:
        return self._player.is_playing

    @Slot()
    def toggle(self) -> None:
        """Plays or pauses; at the end it plays from the beginning."""
        if not self._asks_first(self.toggle) and not self._is_live and self.frames > 1:
            self._player.toggle()

    def _asks_first(self, use: Callable[[], None]) -> bool:
        """Returns True if the run must be read first; ``use`` is then called afterwards."""
        if self.frames or not self._offered:
            return False
        is_asked, self._first_use = self._first_use is not None, use
        if not is_asked:
            self.wanted.emit()
        return True

    @Slot()
    def _opened(self) -> None:
        self._show()
        use, self._first_use = self._first_use, None
        if use is not None and self.frames:
            use()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Space and event.modifiers() == Qt.KeyboardModifier.NoModifier:
            self.toggle()
        else:
            super().keyPressEvent(event)

    def set_pace(self, pace: str) -> None:
        self.pace.setCurrentIndex(self.pace.findData(pace))
        self._player.set_speed(float(pace))

    def _fit_words(self) -> None:
        """Reserves room for the words of most runs, so that nothing moves when they come."""
        if not self._in_line:
            self.words.setMinimumHeight(self.words.fontMetrics().lineSpacing())
            return
        said = tr("Block {block}, step {step} of {steps}", block=9, step=99, steps=99)
        self.words.setMinimumWidth(self.words.fontMetrics().horizontalAdvance(said))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit_words()

    @Slot()
    def _show(self) -> None:
        frames = self.frames or self._offered
        place = self._player.place if self.frames else frames - 1
        with QSignalBlocker(self.slider):
            self.slider.setRange(0, max(0, frames - 1))
            self.slider.setValue(place)
        self.slider.setEnabled(frames > 1)
        self.play.setEnabled(frames > 1 and not self._is_live)
        self.back.setEnabled(frames > 1 and place > 0)
        self.on.setEnabled(frames > 1 and place < frames - 1)
        self.words.setText(frame_words(self._player))

    @Slot()
    def _set_icons(self) -> None:
        title = tr("Pause the run") if self.is_playing else tr("Play the run")
        self.play.setAccessibleName(title)
        self.play.setToolTip(tr("{title} (Space)", title=title))
        set_icon(self.play, "pause" if self.is_playing else "play")


def frame_words(player: Player) -> str:
    """Describes a frame, with its block if there are several."""
    frame, replay = player.frame, player.replay
    if frame is None or replay is None:
        return ""
    place = {"block": frame.block + 1, "step": step_number(frame.step), "steps": replay.steps_of(frame.block)}
    snapshot = player.snapshot
    has_masks = snapshot is not None and snapshot.has_masks
    if NOISE < frame.step < place["steps"]:
        words = "Step {step} of {steps}", "Block {block}, step {step} of {steps}"
    elif frame.step == NOISE:
        words = (
            ("Nothing written", "Block {block}, nothing written") if has_masks else ("Noise", "Block {block}, noise")
        )
    else:
        words = ("Written", "Block {block}, written") if has_masks else ("Settled", "Block {block}, settled")
    return tr(words[replay.blocks > 1], **place)

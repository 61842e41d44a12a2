"""The Race page: the prompt, the lanes side by side, and the clock that replays them afterwards. Has no engine."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QSlider, QWidget

from app.bridge.background import Background
from app.context import Navigator
from app.design import icons, motion, themes
from app.design.chip_bar import SuggestionBar
from app.design.controls import (
    Elided,
    FocusGroup,
    Hairline,
    button,
    chain_tabs,
    discard,
    introduce,
    label,
    restyle,
    scroller,
    show_line,
)
from app.design.fonts import px
from app.design.layouts import boxed, column_of, row_of
from app.design.text_field import PromptField, framed, refusal
from app.race.card import LaneCard, RaceClock
from app.state.race.running import LaneFigures, RaceRun
from app.state.race.scores import LaneEnd, headline, read_lanes
from app.state.run.replay import Replay
from app.system.i18n import tr
from engine import Recording

TICKS = 10_000  # slider steps over the whole race
CLOCK_KEYS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Space)
NARROW = 640  # pixels at 100 %; below it the lanes are in one column
MAX_LINES = 3  # of the prompt that are shown
WATCHABLE_SECONDS = 2.0  # a shorter race is played once it is over


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
        self.play = introduce(
            button("", tr("Play the race"), role="plain", clicked=clock.toggle), id="transport-button"
        )
        self.slider = introduce(
            ClockSlider(Qt.Orientation.Horizontal),
            tr("Time of the race"),
            tr("The arrow keys go to the previous or next step of any lane, Space plays."),
        )
        self.slider.setRange(0, TICKS)
        self.slider.setPageStep(TICKS // 10)
        self.words = Elided("caption")
        self.setLayout(row_of(label(tr("Replay"), "setting"), self.play, (self.slider, 3), (self.words, 2), spacing=8))
        self.slider.valueChanged.connect(self._go)
        self.slider.sliderPressed.connect(clock.pause)
        clock.moved.connect(self.refresh)
        clock.playing_changed.connect(self._set_icon)
        self._set_icon()

    @Slot()
    def refresh(self) -> None:
        clock = self._clock
        has_race = clock.end > 0
        with QSignalBlocker(self.slider):
            self.slider.setValue(round(TICKS * clock.seconds / clock.end) if has_race else 0)
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


class RaceField(PromptField):
    """A prompt field as tall as its text, up to ``MAX_LINES`` lines."""

    def __init__(self) -> None:
        super().__init__()
        introduce(self, tr("Prompt"), tr("Enter starts the race, Shift+Enter starts a new line"))
        self.setPlaceholderText(tr("A prompt for all lanes"))
        self.document().documentLayout().documentSizeChanged.connect(self.updateGeometry)

    def sizeHint(self) -> QSize:
        lines = max(1, min(MAX_LINES, int(self.document().size().height())))  # plain text: the height is in lines
        around = 2 * int(self.document().documentMargin()) + 2
        return QSize(240, lines * self.fontMetrics().lineSpacing() + around)


@dataclass(eq=False)
class ShownRace:
    """A running or finished race, with its lanes' titles.

    Args:
        columns: Cells in a row of each lane's canvas; None for as many as fit.
    """

    run: RaceRun
    titles: Sequence[str]
    columns: Sequence[int | None]
    replays: dict[int, Replay] = field(default_factory=dict)  # by lane, made when first needed

    def replay(self, lane: int) -> Replay | None:
        """Returns the replay of a lane's frames; None if it has no frames."""
        trace = self.run.lanes[lane].trace
        if lane not in self.replays and trace is not None:
            self.replays[lane] = Replay(trace)
        replay = self.replays.get(lane)
        return replay if replay is not None and replay.frames else None


class RacePage(QWidget):
    """The page. Shows a ``ShownRace``, live and afterwards; ``lanes`` stand above the prompt."""

    race_asked = Signal(str)  # the prompt

    def __init__(self, lanes: QWidget, navigator: Navigator, stops: Sequence[QWidget] = ()) -> None:
        """``stops`` are the parts of the lanes in the order of the Tab key."""
        super().__init__()
        introduce(self, tr("Race"), id="race")
        self._navigator = navigator
        self.shown: ShownRace | None = None
        self._begun: list[Recording | None] = []  # the runs whose tokens the cards decode
        self._can_race = False
        self.field = RaceField()
        self.race = button(
            tr("Race"), tr("Start the race"), role="primary", tip=tr("All lanes answer (Enter)"), clicked=self._submit
        )
        self.stop = button(tr("Stop"), tr("Stop the race"), role="plain", tip=tr("Within one step (Esc)"))
        self.suggestions = SuggestionBar(self.stop)
        self.message = label("", "caption", wrap=True)
        self.fault = label("", "error", wrap=True, selectable=True)
        self.clock = RaceClock(self)
        self.bar = ClockBar(self.clock)
        self.reader = Background(self, self._show_readings, lambda said: show_line(self.fault, said))
        self.headline = label("", "caption", wrap=True, selectable=True, name=tr("Result of the race"))
        self.cards: list[LaneCard] = []
        self._focus = FocusGroup(self.race, self.stop)
        self._lay_out(lanes)
        path = (*stops, self.field, self.race, self.stop)
        chain_tabs(path[0], path[1:])
        self.field.submitted.connect(self._submit)
        self.field.textChanged.connect(self._allow)
        self.field.overlong.connect(lambda _text: show_line(self.fault, refusal()))
        self.clock.moved.connect(self._show_moment)
        themes.settled.connect(self._arrange)

    def _lay_out(self, lanes: QWidget) -> None:
        cards = QWidget()
        self._grid = QGridLayout(cards)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(12)
        inside = row_of((self.field, 1), self.race, self.stop, margins=(12, 8, 8, 8), spacing=8)
        asked = framed(self.field, inside)
        parts = (lanes, asked, self.suggestions, self.message, self.fault, self.headline, (cards, 1))
        scrolled = column_of(*parts, margins=(16, 12, 16, 8), spacing=8)
        replaying = row_of((self.bar, 1), margins=(16, 8, 16, 12))
        self.setLayout(column_of((scroller(boxed(scrolled)), 1), Hairline(), replaying))

    def show_doing(self, *, is_busy: bool, message: str, fault: str, can_race: bool) -> None:
        """Shows whether a race is running, what the user waits for, and why the last race failed."""
        self._can_race = can_race
        with self._focus:
            self.race.setVisible(not is_busy)
            self.stop.setVisible(is_busy)
            self._allow()
        show_line(self.message, message)
        show_line(self.fault, fault)

    @Slot()
    def _allow(self) -> None:
        self.race.setEnabled(self._can_race and bool(self.field.raw().strip()))

    @Slot()
    def _submit(self) -> None:
        self.field.commit()
        if self.race.isEnabled() and self.race.isVisibleTo(self):
            self.race_asked.emit(self.field.raw())

    def show_lanes(self, titles: Sequence[str]) -> None:
        """Shows empty cards, before a race."""
        self.shown = None
        self.headline.setText(
            tr("All lanes answer the same prompt, in turns of one pass. Seconds count a lane's own passes.")
        )
        restyle(self.headline, "role", "caption")
        self._begun = [None] * len(titles)
        self.clock.open([])
        self.reader.drop()
        self._make_cards(len(titles))
        for card, title in zip(self.cards, titles, strict=True):
            card.title.set_whole(title)
            card.set_run(None)
            card.show_reading("", None, None)
            show_line(card.problem, "")
            card.allow(inspect=False, compare=False)

    def _make_cards(self, count: int) -> None:
        while len(self.cards) > count:
            discard(self.cards.pop())
        while len(self.cards) < count:
            card = LaneCard(len(self.cards))
            for link, show in (
                (card.inspect, self._inspect),
                (card.compare, self._compare),
                (card.export, self._export),
            ):
                link.clicked.connect(functools.partial(show, len(self.cards)))
            self.cards.append(card)
        self._arrange()
        chain_tabs(self.stop, [stop for card in self.cards for stop in card.tab_stops()])

    @Slot()
    def _arrange(self) -> None:
        columns = 1 if self.width() < px(NARROW) else 2
        for place, card in enumerate(self.cards):
            self._grid.addWidget(card, place // columns, place % columns)
        self._grid.setColumnStretch(0, 1)
        self._grid.setColumnStretch(1, columns - 1)

    def show_race(self, race: ShownRace) -> None:
        """Shows a race that begins. ``refresh`` then shows its progress, and ``end`` that it is over."""
        self.show_lanes(race.titles)
        self.shown = race
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        race = self.shown
        if race is None:
            return
        for place, (card, lane) in enumerate(zip(self.cards, race.run.lanes, strict=True)):
            if lane.trace is not self._begun[place]:
                self._begun[place] = lane.trace
                card.set_run(lane.trace, race.columns[place])
            card.show_frame(lane.canvas.current, lane.figures)
            show_line(card.problem, tr(lane.problem) if lane.problem else "")

    def end(self) -> None:
        """Ends a race: reads the texts, and enables the clock, which replays all lanes together, and the links."""
        race = self.shown
        if race is None:
            return
        self.refresh()
        first = race.run.lanes[0].trace
        for place, (card, lane) in enumerate(zip(self.cards, race.run.lanes, strict=True)):
            has_run = lane.trace is not None and race.replay(place) is not None
            card.allow(inspect=has_run, compare=has_run and first is not None)
        self.clock.open([[moment.seconds for moment in lane.moments] for lane in race.run.lanes])
        self.reader.ask(lambda: read_lanes(race.run, race.titles))
        if 0 < self.clock.end < WATCHABLE_SECONDS and not motion.is_reduced():
            self.clock.toggle()

    @Slot()
    def _show_moment(self) -> None:
        """Shows all lanes at the clock's current time."""
        race = self.shown
        if race is None or not race.run.is_over:
            return
        for place, (card, lane) in enumerate(zip(self.cards, race.run.lanes, strict=True)):
            replay, frame = race.replay(place), self.clock.place(place)
            if replay is None or frame < 0:
                continue
            block = replay.snapshot(min(frame, len(replay.frames) - 1))
            last = replay.record(block.block_index).snapshots[-1]
            card.show_frame(block, lane.moments[frame] if lane.moments else LaneFigures(), last)

    @Slot(object)
    def _show_readings(self, lane_ends: Sequence[LaneEnd]) -> None:
        """Shows the lanes' texts with their verdicts, and who won."""
        race = self.shown
        if race is None:
            return
        for card, reading in zip(self.cards, lane_ends, strict=True):
            card.show_reading(reading.text, reading.agreement, reading.is_right)
        if race.run.was_stopped or race.run.problem:
            return
        self.headline.setText(headline(lane_ends))
        restyle(self.headline, "role", "asked")

    def _trace(self, place: int) -> Recording | None:
        return None if self.shown is None else self.shown.run.lanes[place].trace

    def _inspect(self, place: int, _checked: bool = False) -> None:
        if (trace := self._trace(place)) is not None:
            self._navigator.inspect(trace)

    def _compare(self, place: int, _checked: bool = False) -> None:
        trace, first = self._trace(place), self._trace(0)
        if trace is not None and first is not None:
            self._navigator.compare(trace, first)

    def _export(self, place: int, _checked: bool = False) -> None:
        if (trace := self._trace(place)) is not None:
            self._navigator.export(trace)

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.bar.keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

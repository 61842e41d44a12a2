"""One race: the prompt, the lanes side by side, and the clock that replays them afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QWidget

from app.bridge.background import Background
from app.design import motion, themes
from app.design.controls import Hairline, chain_tabs, label, restyle, scroller
from app.design.fonts import px
from app.design.layouts import boxed, column_of, row_of
from app.pictures.row import PictureRow
from app.race import words
from app.race.one.card import LaneCard
from app.race.one.clock import RaceClock
from app.race.one.clock_bar import ClockBar
from app.race.one.prompt_bar import PromptBar
from app.race.one.reader import ALL, NOTHING, LanePart, LaneReading, ReadingRequest
from app.state.chat.attachment import AttachedPicture
from app.state.race.headline import LaneEnd, headline, short_names
from app.state.race.lanes import LaneSpec
from app.state.race.running import RaceRun, text_length
from app.state.run.canvas import BlockState
from app.state.run.replay import Replay
from app.system.i18n import tr
from app.system.timers import later
from engine import Recording

NARROW = 640  # pixels at 100 %; below it the lanes are in one column
LOW = 300  # pixels at 100 %; on a lower page the replay scrolls with the lanes
READ_MS = 250  # between two readings of the texts, which a thread does
WATCHABLE_SECONDS = 2.0  # a shorter race is played once it is over


@dataclass(eq=False)
class ShownRace:
    """A running or finished race, with its lanes.

    Args:
        columns: Cells in a row of each lane's canvas; None for as many as fit.
        pictures: Those of its prompt.
    """

    run: RaceRun
    lanes: Sequence[LaneSpec]
    columns: Sequence[int | None]
    pictures: tuple[AttachedPicture, ...] = ()
    replays: dict[int, Replay] = field(default_factory=dict)  # by lane, made when first needed
    readings: Sequence[LaneReading] = ()  # of the lanes' whole texts, once they are read

    @property
    def prompt(self) -> str:
        return str(self.run.request.messages[-1]["content"])

    def replay(self, lane: int) -> Replay | None:
        """Returns the replay of a lane's frames; None if it has no frames."""
        trace = self.run.lanes[lane].trace
        if lane not in self.replays and trace is not None:
            self.replays[lane] = Replay(trace)
        found = self.replays.get(lane)
        return found if found is not None and found.frames else None


class OneRace(QWidget):
    """The widget. Shows a ``ShownRace``, live and afterwards."""

    inspect_asked = Signal(object)  # a Recording
    compare_asked = Signal(object, object)  # two Recordings; the second is the first lane's
    export_asked = Signal(object)  # a Recording

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.shown: ShownRace | None = None
        self._titles: Sequence[str] = ()  # of the lanes
        self._begun: list[Recording | None] = []  # the runs whose tokens the cards decode
        self._wanted = self._read_last = ReadingRequest(())
        self._pause = later(self, self._read, READ_MS)  # until the texts may be read again
        self.prompt = PromptBar()
        self.pictures = PictureRow()
        self.clock = RaceClock(self)
        self.bar = ClockBar(self.clock)
        self.reader = Background(self, self._show_readings)
        self.headline = label("", "caption", wrap=True, selectable=True)
        self.headline.setAccessibleName(tr("Result of the race"))
        self.cards: list[LaneCard] = []
        self._lay_out()
        self.prompt.pictures.changed.connect(self._show_pictures)
        self.clock.moved.connect(self._show_moment)
        self.reader.failed.connect(_raise)
        themes.settled.connect(self._arrange)

    def _lay_out(self) -> None:
        cards = QWidget()
        self._grid = QGridLayout(cards)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(12)
        parts = (self.prompt, self.pictures, self.headline, (cards, 1))
        self._scrolled = column_of(*parts, margins=(16, 12, 16, 8), spacing=8)
        self._replaying = boxed(column_of(Hairline(), row_of((self.bar, 1), margins=(16, 8, 16, 12))))
        self._fixed = column_of((scroller(boxed(self._scrolled)), 1), self._replaying)
        self.setLayout(self._fixed)

    def show_lanes(self, lanes: Sequence[LaneSpec]) -> None:
        """Shows empty cards, before a race."""
        self.shown = None
        self._show_headline()
        self._begun = [None] * len(lanes)
        self._show_pictures()
        self.clock.open([])
        self.reader.drop()
        self._wanted = self._read_last = ReadingRequest(())
        self._make_cards(len(lanes))
        are_changed = any(lane.changes for lane in lanes)
        for card, lane in zip(self.cards, lanes, strict=True):
            card.show_changes(words.settings_words(lane) if are_changed else "")
            card.set_run(None)
            card.show_reading("", None, None)
            card.show_problem("")
            card.allow(inspect=False, compare=False)

    def name_lanes(self, titles: Sequence[str]) -> None:
        """Sets the titles of the shown lanes."""
        self._titles = titles
        for card, title in zip(self.cards, titles, strict=True):
            card.title.set_whole(title)
        self._show_headline()

    def _show_headline(self) -> None:
        """Shows who won, once the texts of a finished race are read; before that, how a race is timed."""
        race = self.shown
        if race is None or not race.readings or race.run.was_stopped or race.run.problem:
            self._say(words.fairness(), "caption")
            return
        names = short_names(self._titles)
        ends = [
            LaneEnd(name, lane.figures, read.text, read.is_right, lane.problem)
            for name, lane, read in zip(names, race.run.lanes, race.readings, strict=True)
        ]
        self._say(headline(ends), "asked")

    def _say(self, text: str, role: str) -> None:
        self.headline.setText(text)
        if self.headline.property("role") != role:
            restyle(self.headline, "role", role)

    def _make_cards(self, count: int) -> None:
        while len(self.cards) > count:
            gone = self.cards.pop()
            gone.hide()
            gone.deleteLater()
        while len(self.cards) < count:
            card = LaneCard(len(self.cards))
            card.inspect_asked.connect(self._inspect)
            card.compare_asked.connect(self._compare)
            card.export_asked.connect(self._export)
            self.cards.append(card)
        self._arrange()
        chain_tabs(self.prompt.history, [stop for card in self.cards for stop in card.tab_stops()])

    @Slot()
    def _arrange(self) -> None:
        """Lays out the cards, and the replay: below the page, or where that is low, at the end of what scrolls."""
        columns = 1 if self.width() < px(NARROW) else 2
        for place, card in enumerate(self.cards):
            self._grid.addWidget(card, place // columns, place % columns)
        for column in range(2):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
        below = self._scrolled if self.height() < px(LOW) else self._fixed
        if below.indexOf(self._replaying) < 0:
            below.addWidget(self._replaying)

    def begin(self, race: ShownRace) -> None:
        """Shows a race that begins. ``refresh`` then shows its progress, and ``end`` that it is over."""
        self.show_lanes(race.lanes)
        self.shown = race
        self._show_pictures()
        self.refresh()

    @Slot()
    def _show_pictures(self) -> None:
        """Shows the race's pictures, unless the prompt field shows the same ones."""
        shown = () if self.shown is None else self.shown.pictures
        self.pictures.show_pictures(() if shown == self.prompt.pictures.pictures else shown)

    def show_race(self, race: ShownRace) -> None:
        """Shows a race that is over."""
        self.begin(race)
        self.end()

    @Slot()
    def refresh(self) -> None:
        """Shows the progress of the running race."""
        race = self.shown
        if race is None:
            return
        for place, (card, lane) in enumerate(zip(self.cards, race.run.lanes, strict=True)):
            self._begin_lane(place)
            card.show_frame(lane.canvas.current, lane.figures)
            card.show_problem(tr(lane.problem) if lane.problem else "")
        self._want([part_of(lane.trace, lane.canvas.current) for lane in race.run.lanes])

    def _begin_lane(self, place: int) -> None:
        """Passes a lane's run to its card once it has begun, as the card needs it to decode tokens."""
        race = self.shown
        assert race is not None
        trace = race.run.lanes[place].trace
        if trace is not self._begun[place]:
            self._begun[place] = trace
            self.cards[place].set_run(trace, race.columns[place])

    def end(self) -> None:
        """Ends a race: enables the clock, which replays all lanes together, and the cards' links."""
        race = self.shown
        if race is None:
            return
        self.refresh()
        first = race.run.lanes[0].trace
        for place, (card, lane) in enumerate(zip(self.cards, race.run.lanes, strict=True)):
            has_run = lane.trace is not None and race.replay(place) is not None
            card.allow(inspect=has_run, compare=has_run and first is not None)
        self.clock.open([[moment.seconds for moment in lane.moments] for lane in race.run.lanes])

    def play_if_short(self) -> None:
        """Plays a race that was too short to be watched, unless motion is reduced."""
        if 0 < self.clock.end < WATCHABLE_SECONDS and not motion.is_reduced():
            self.clock.toggle()

    @Slot()
    def _show_moment(self) -> None:
        """Shows all lanes at the clock's current time."""
        race = self.shown
        if race is None or not race.run.is_over:
            return
        parts = []
        for place, (card, lane) in enumerate(zip(self.cards, race.run.lanes, strict=True)):
            replay, frame = race.replay(place), self.clock.place(place)
            if replay is None or frame < 0:
                parts.append(LanePart(lane.trace, ALL))
                continue
            frame = min(frame, len(replay.frames) - 1)
            block = replay.snapshot(frame)
            last = replay.record(block.block_index).snapshots[-1]
            card.show_frame(block, lane.moments[frame], last)
            is_last = frame == len(lane.moments) - 1
            parts.append(LanePart(lane.trace, ALL) if is_last else part_of(lane.trace, block))
        self._want(parts)

    @property
    def is_reading(self) -> bool:
        """True while texts are being read, or about to be."""
        return self.reader.is_busy or self._wanted != self._read_last

    def _want(self, parts: Sequence[LanePart]) -> None:
        """Requests these parts of the lanes' texts, at most every ``READ_MS``."""
        race = self.shown
        is_whole = race is not None and race.run.is_over and all(part.block == ALL for part in parts)
        self._wanted = ReadingRequest(tuple(parts), race.prompt if race is not None and is_whole else "")
        if not self._pause.isActive():
            self._read()

    @Slot()
    def _read(self) -> None:
        if self._wanted != self._read_last:
            self._read_last = self._wanted
            self.reader.ask(self._wanted.read)
            self._pause.start()

    @Slot(object)
    def _show_readings(self, found: Sequence[LaneReading]) -> None:
        if self.shown is not None and self._read_last.prompt:
            self.shown.readings = found
            self._show_headline()
        for card, reading in zip(self.cards, found, strict=True):
            card.show_reading(reading.text, reading.agreement, reading.is_right)

    def _trace(self, place: int) -> Recording | None:
        return None if self.shown is None else self.shown.run.lanes[place].trace

    @Slot(int)
    def _inspect(self, place: int) -> None:
        if (trace := self._trace(place)) is not None:
            self.inspect_asked.emit(trace)

    @Slot(int)
    def _compare(self, place: int) -> None:
        trace, first = self._trace(place), self._trace(0)
        if trace is not None and first is not None:
            self.compare_asked.emit(trace, first)

    @Slot(int)
    def _export(self, place: int) -> None:
        if (trace := self._trace(place)) is not None:
            self.export_asked.emit(trace)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.bar.keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()


def part_of(trace: Recording | None, block: BlockState | None) -> LanePart:
    """Returns a lane's text up to ``block``; of that block, only the accepted tokens before a gap or the end."""
    if block is None:
        return LanePart(trace)
    if block.committed:
        return LanePart(trace, block.block_index)
    shown = block.shown[: text_length(trace, block.shown)]
    gaps = np.flatnonzero(~block.accepted_mask[: len(shown)])
    written = shown[: gaps[0] if len(gaps) else None].tolist()
    before = block.block_index - 1
    return LanePart(trace, before if before >= 0 else NOTHING, tuple(written))


def _raise(error: Exception) -> None:
    """Reports an error of the reader's thread as one of the window's."""
    raise error

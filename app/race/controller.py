"""Connects the Race page to the engine, and keeps the lanes and the races of this session."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Slot

from app.context import RACE, AppContext, ModelChoice
from app.pictures.files import drawing_of
from app.pictures.source import PictureSource
from app.race import words
from app.race.lanes.chooser import LaneChooser
from app.race.lanes.facts import FactBook
from app.race.lanes.lane_store import LaneStore
from app.race.one.view import ShownRace
from app.race.page import RacePage
from app.race.racer import Racer
from app.state.chat.attachment import AttachedPicture
from app.state.chat.prompts import Suggestion, about_drawings, prepare_with_files, suggestions
from app.state.race.lanes import LaneSpec, usual_lanes
from app.state.race.running import RaceRun
from app.system.i18n import tr
from engine import SafelightError, catalog
from engine.catalog import Traits
from engine.service import ServiceReply

if TYPE_CHECKING:
    from engine.tasks.drawings import Scene

MOST_RACES = 12  # of the session that are kept to be shown again
MOST_FRAMES = 20_000  # of all kept races; each takes some kilobytes of memory


class RaceController(QObject):
    """The controller of the Race page. It runs one race at a time."""

    notice = None  # errors go through ``context.say``

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.lanes, self.facts = LaneStore(context, self), FactBook(context, self)
        self.racer = Racer(context, self)
        chooser = LaneChooser(context, self.lanes, self.facts)
        self.widget = self.page = page = RacePage(chooser)
        self.setParent(page)  # so that no signal arrives after the page is deleted
        self._races: list[ShownRace] = []  # of this session, the latest first
        self._fault = ""  # of the last race
        self._said = ""  # about its end
        self._replaced: tuple[LaneSpec, ...] = ()  # the user's lanes, while a race has others
        self._suggested: object = None  # the traits that the suggestions were made for
        self._scenes: dict[str, Scene] = {}  # by prompt, of the suggestions about drawings
        self._pictures: tuple[AttachedPicture, ...] = ()  # of the race that is starting
        one, store = page.one, context.session.library.pictures
        one.pictures.source = PictureSource(store.get)
        one.prompt.pictures.set_store(store, one.pictures.source)
        one.prompt.pictures.changed.connect(self.refresh)
        one.prompt.suggestions.picked.connect(self.pick)
        one.prompt.race_asked.connect(self.race)
        one.prompt.stop.clicked.connect(self.stop)
        one.prompt.history.activated.connect(self._show_earlier)
        one.inspect_asked.connect(context.inspect)
        one.compare_asked.connect(context.compare)
        one.export_asked.connect(context.export)
        self.racer.began.connect(self._began)
        self.racer.changed.connect(self._changed)
        self.racer.ended.connect(self._ended)
        self.lanes.changed.connect(self._lanes_changed)
        self.facts.found.connect(self.refresh)
        context.register_busy(self)
        context.arrived.connect(self.take)
        context.busy_changed.connect(self.refresh)
        self._show_lanes()
        self.refresh()

    def enter(self) -> None:
        """Moves the keyboard focus to the page."""
        self.page.enter()

    @property
    def is_busy(self) -> bool:
        """True while a race is running."""
        return self.racer.is_busy

    def reason_to_wait(self) -> str:
        """A sentence that says that a race is running; empty if none is."""
        return tr("A race is running; Esc stops it") if self.is_busy else ""

    @Slot()
    def _lanes_changed(self) -> None:
        self._fault = self._said = ""
        self._show_lanes()
        self.refresh()

    def _show_lanes(self) -> None:
        """Shows empty cards for the current lanes."""
        self.page.one.show_lanes(self.lanes.specs)
        self._show_history()

    def _traits(self, lane: LaneSpec) -> Traits:
        return catalog.traits(lane.model, lane.adapter or None)

    def _reason(self) -> str:
        """Why no race can start now, as a sentence; empty if one can. It needs no loaded model: lanes load theirs."""
        context = self._context
        is_waiting = context.is_busy or context.loading is not None
        return context.reason_to_wait() if is_waiting else ""

    @Slot(str)
    def pick(self, prompt: str) -> None:
        """Starts a race with a suggestion. One about a drawing is only put into the field, with its picture."""
        bar = self.page.one.prompt
        bar.field.setPlainText(prompt)
        bar.pictures.set_pictures(())
        if (scene := self._scenes.get(prompt)) is not None:
            bar.frame.add([drawing_of(scene)])
            bar.field.setFocus()
        else:
            self.race(prompt)

    @Slot()
    @Slot(str)
    def race(self, prompt: str = "") -> None:
        """Starts a race with ``prompt``, or with the text of the field if it is empty, and the attached pictures."""
        bar = self.page.one.prompt
        if self._reason() or self.page.lanes.problem:
            return
        shown = bar.pictures.pictures
        try:
            asked, _ = prepare_with_files(
                self._traits(self.lanes.specs[0]), prompt or bar.text, (), pictures=len(shown)
            )
            pictures = self._context.session.library.pictures.all_of(shown)
        except SafelightError as error:
            self._fault = str(error)
            self.refresh()
            return
        self._fault, self._said, self._pictures = "", "", shown
        self.racer.race(asked, self.lanes.specs, self._context.values.next_seed(), pictures)

    def race_on(self, prompt: str, models: Sequence[ModelChoice]) -> None:
        """Opens the page and starts a race of these models. The user's own lanes can be put back after it."""
        self.show()
        if self.is_busy:
            return
        mine, bar = self.lanes.specs, self.page.one.prompt
        self.lanes.set_all(tuple(LaneSpec(model.path_or_id, adapter=model.adapter or "") for model in models))
        self._replaced = () if mine in (usual_lanes(), self.lanes.specs) else mine
        bar.field.setPlainText(prompt)
        bar.pictures.set_pictures(())
        self.race(prompt)
        if not self.is_busy:
            self._offer_lanes()

    def _offer_lanes(self) -> None:
        """Offers to put the user's own lanes back after a race that had others."""
        mine, self._replaced = self._replaced, ()
        if mine:
            put_back = functools.partial(self.lanes.set_all, mine)
            self._context.done.emit(tr("The race has replaced your lanes."), tr("Restore mine"), put_back)

    @Slot()
    def stop(self) -> None:
        """Stops all lanes within one denoising step."""
        self.racer.stop()

    @Slot(object)
    def _began(self, run: RaceRun) -> None:
        lanes = self.lanes.specs
        race = ShownRace(run, lanes, [self._traits(lane).canvas_columns for lane in lanes], self._pictures)
        self._races = _recent([race, *self._races])
        self.page.one.begin(race)
        self._show_history()
        self.refresh()

    @Slot()
    def _changed(self) -> None:
        self.page.one.refresh()
        self.refresh()

    @Slot(object)
    def _ended(self, run: RaceRun) -> None:
        self._fault = tr(run.problem) if run.problem else ""
        self._said = tr("Stopped before the end.") if run.was_stopped and not self._fault else ""
        self.page.one.end()
        self.page.one.play_if_short()
        self._context.busy_changed.emit()
        self._offer_lanes()

    @Slot(object)
    def take(self, replies: list[ServiceReply]) -> None:
        """Passes replies of the engine on to the race."""
        self.racer.take(replies)

    def _show_history(self) -> None:
        shown = self.page.one.shown
        place = self._races.index(shown) if shown in self._races else -1
        self.page.one.prompt.show_history([words.race_title(race.prompt) for race in self._races], place)

    @Slot(int)
    def _show_earlier(self, place: int) -> None:
        self.page.one.show_race(self._races[place])
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Updates titles, messages and buttons after a change of model, lanes or running race."""
        page, busy, shown = self.page, self.is_busy, self.page.one.shown
        page.one.name_lanes([page.lanes.title(lane) for lane in (self.lanes.specs if shown is None else shown.lanes)])
        reason = "" if busy else self._reason()
        blind = page.lanes.blind if page.one.prompt.pictures.chips else ""
        page.lanes.set_busy(busy)
        page.one.prompt.show_doing(
            is_busy=busy,
            message=self._loading() or reason or blind or self._said,
            fault=self._fault,
            can_race=not reason and not page.lanes.problem,
        )
        traits = self._traits(self.lanes.specs[0])
        if traits != self._suggested:
            self._suggested = traits
            self._scenes = about_drawings(random.Random()) if traits.taught == "drawings" else {}
            drawn = [Suggestion(question, question) for question in self._scenes]
            page.one.prompt.suggestions.offer(drawn or suggestions(traits, random.Random()))

    def _loading(self) -> str:
        """A message about the model that is being loaded for the race; empty if none is."""
        loading = None if self.racer.run is None else self.racer.run.loading
        if loading is None:
            return ""
        return tr("Loading {model} as well, {share}", model=loading.title, share=f"{loading.share:.0%}")

    def show(self) -> None:
        """Opens the page."""
        self._context.show_page(RACE)
        self.page.enter()


def _recent(races: Sequence[ShownRace]) -> list[ShownRace]:
    """Returns the latest races within ``MOST_RACES`` and ``MOST_FRAMES``; ``races`` is sorted latest first."""
    frames = itertools.accumulate(sum(len(lane.moments) for lane in race.run.lanes) for race in races)
    return [race for race, count in zip(races[:MOST_RACES], frames, strict=False) if count <= MOST_FRAMES]


def build(context: AppContext) -> RaceController:
    return RaceController(context)

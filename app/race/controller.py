"""Connects the Race page to the engine."""

from __future__ import annotations

import random
from collections.abc import Sequence

from PySide6.QtCore import QObject, Slot

from app.bridge.engine_thread import Handle
from app.context import RACE, AppContext
from app.race.lanes import LaneChooser
from app.race.page import RacePage, ShownRace
from app.session.model_slot import ModelChoice
from app.state.chat.prompts import prepare, suggestions
from app.state.race.prompts import LaneSpec
from app.state.race.running import RaceRun
from app.system.i18n import tr
from app.system.timers import later
from engine import SafelightError, catalog
from engine.catalog import Traits
from engine.service import RaceRequest, ServiceReply
from engine.text.message import message_of

REFRESH_MS = 30  # at least, between two updates of the page


class RaceController(QObject):
    """The controller of the Race page. It runs one race at a time."""

    notice = None  # errors go through ``context.say``

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.lanes = LaneChooser(context)
        self.widget = self.page = page = RacePage(self.lanes, context.navigator, self.lanes.tab_stops())
        self.setParent(page)  # so that no signal arrives after the page is deleted
        self.run: RaceRun | None = None  # the running race
        self._handle: Handle | None = None
        self._refreshing = later(self, self._show_progress, REFRESH_MS)
        self._fault = ""  # of the last race
        self._said = ""  # about its end
        self._suggested: Traits | None = None  # that the suggestions were made for
        page.suggestions.picked.connect(self.pick)
        page.race_asked.connect(self.race)
        page.stop.clicked.connect(self.stop)
        self.lanes.changed.connect(self._show_lanes)
        self.lanes.found.connect(self.refresh)
        context.register_busy(self)
        context.busy_changed.connect(self.refresh)
        self._show_lanes()

    def enter(self) -> None:
        self.page.field.setFocus()

    @property
    def is_busy(self) -> bool:
        return self.run is not None

    def reason_to_wait(self) -> str:
        """A sentence that says that a race is running; empty if none is."""
        return tr("A race is running; Esc stops it") if self.is_busy else ""

    @Slot()
    def _show_lanes(self) -> None:
        """Shows empty cards for the current lanes."""
        self._fault = self._said = ""
        self.page.show_lanes(self.lanes.titles)
        self.refresh()

    def _traits(self, lane: LaneSpec) -> Traits:
        return catalog.traits(lane.model, lane.adapter or None)

    def _reason(self) -> str:
        """Why no race can start now, as a sentence; empty if one can. It needs no loaded model: lanes load theirs."""
        context = self._context
        return context.reason_to_wait() if context.is_busy or context.loading is not None else ""

    @Slot(str)
    def pick(self, prompt: str) -> None:
        """Starts a race with a suggestion."""
        self.page.field.setPlainText(prompt)
        self.race(prompt)

    @Slot()
    @Slot(str)
    def race(self, prompt: str = "") -> None:
        """Starts a race with ``prompt``, or with the text of the field if it is empty."""
        page, lanes, context = self.page, self.lanes.specs, self._context
        if self._reason() or self.lanes.problem:
            return
        try:
            asked = prepare(self._traits(lanes[0]), prompt or page.field.raw())
        except SafelightError as error:
            self._fault = str(error)
            self.refresh()
            return
        self._fault = self._said = ""
        request = RaceRequest(
            (message_of(asked, ()),),
            tuple(lane.lane() for lane in lanes),
            context.values.next_seed(),
            keep=True,
            threads=context.preferences.threads,
        )
        self.run = RaceRun.from_request(request)
        page.show_race(ShownRace(self.run, self.lanes.titles, [self._traits(lane).canvas_columns for lane in lanes]))
        self._handle = context.backend.race(request)
        self._handle.replied.connect(self._apply)
        context.busy_changed.emit()

    def race_on(self, prompt: str, models: Sequence[ModelChoice]) -> None:
        """Opens the page and starts a race of these models."""
        self.show()
        if not self.is_busy:
            self.lanes.set_all(tuple(LaneSpec(model.path_or_id, adapter=model.adapter or "") for model in models))
            self.pick(prompt)

    @Slot()
    def stop(self) -> None:
        """Stops all lanes within one denoising step."""
        if self._handle is not None:
            self._handle.stop()

    @Slot(object)
    def _apply(self, replies: list[ServiceReply]) -> None:
        run = self.run
        if run is None:
            return
        for reply in replies:
            run.apply(reply)
        if run.is_over:
            self.run = self._handle = None
            self._refreshing.stop()
            self._fault = tr(run.problem) if run.problem else ""
            self._said = tr("Stopped before the end.") if run.was_stopped and not self._fault else ""
            self.page.end()
            self._context.busy_changed.emit()
        elif not self._refreshing.isActive():
            self._refreshing.start()

    @Slot()
    def _show_progress(self) -> None:
        self.page.refresh()
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Updates titles, messages and buttons after a change of model, lanes or running race."""
        page, busy = self.page, self.is_busy
        if page.shown is None:
            for card, title in zip(page.cards, self.lanes.titles, strict=True):
                card.title.set_whole(title)
        reason = "" if busy else self._reason()
        self.lanes.set_busy(busy)
        page.show_doing(
            is_busy=busy,
            message=self._loading() or reason or self._said,
            fault=self._fault,
            can_race=not reason and not self.lanes.problem,
        )
        traits = self._traits(self.lanes.specs[0])
        if traits != self._suggested:
            self._suggested = traits
            page.suggestions.offer(suggestions(traits, random.Random()))

    def _loading(self) -> str:
        """A message about the model that is being loaded for the race; empty if none is."""
        loading = None if self.run is None else self.run.loading
        if loading is None:
            return ""
        return tr("Loading {model} as well, {share}", model=loading.title, share=f"{loading.share:.0%}")

    def show(self) -> None:
        self._context.navigator.show_page(RACE)


build = RaceController

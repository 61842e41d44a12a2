"""What the inspector does with runs: which can be looked at, forking, writing anew, measuring influence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QFileDialog

import engine
from app.context import INSPECTOR, AppContext
from app.inspector.compare.view import Compare
from app.inspector.forks.panel import ForkPanel
from app.inspector.influence.view import InfluenceView
from app.inspector.page import InspectorPage
from app.inspector.run_catalog import RECENT, Listed, RunCatalog
from app.inspector.run_lists import first_offers, other_offers, run_tree
from app.inspector.words import Piece
from app.state.run.comparison import asked
from app.system.i18n import tr, trn
from engine import Fork, GalleryTrace, Mark, Recording, SafelightError, TraceHeader
from engine.service import (
    Capabilities,
    InfluenceMeasured,
    InfluenceRequest,
    RunAdvanced,
    RunEnded,
    RunRequest,
    RunStarted,
    ServiceReply,
)

if TYPE_CHECKING:
    from engine import Influence


class InspectorController(QObject):
    """Opens runs in the inspector. A run's key is its file's path, or its id where it is in memory."""

    notice = None  # the window says what went wrong

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.widget = self.page = page = InspectorPage(context.theme, context.values.reduced_motion)
        self._live: dict[str, Recording] = {}  # runs of this session, by id
        self._gallery = self._listed_gallery()
        self._catalog = RunCatalog(context.folders.traces, [one.path for one in self._gallery], self)
        self._catalog.changed.connect(self._list_changed)
        self._catalog.failed.connect(self._say_unlisted)
        context.at_end(self._catalog.close)
        self.forks = ForkPanel(page.player)
        self.influence = InfluenceView(page.player)
        self.compare = Compare(page.player, page.overview)
        page.add_panel(tr("Fork"), self.forks, works=True)
        page.add_panel(tr("Influence"), self.influence, works=True)
        page.add_view(tr("Compare"), tr("Compare this run with another"), self.compare)
        self._asked: RunRequest | None = None  # the fork under way
        self.forks.fork_asked.connect(self._fork)
        self.forks.infill_asked.connect(self._infill)
        self.forks.run_chosen.connect(self.open_key)
        self.influence.asked.connect(self._measure)
        self.influence.asked_text.connect(self._measure_text)
        page.player.opened.connect(self._opened)
        page.file_asked.connect(self.ask_file)
        page.chosen.connect(self.open_key)
        page.closed.connect(self.offer)
        page.exported.connect(context.confirm_export)
        self.compare.wanted.connect(self._offer_others)
        self.compare.chosen.connect(self._compare_with)
        self.compare.file_asked.connect(self._ask_other)
        context.session.progressed.connect(self._grow)
        context.backend.pacing.revealed.connect(page.refresh)
        context.session.ended.connect(page.run_ended)
        context.register_busy(self)
        context.arrived.connect(self.take)
        context.busy_changed.connect(self.refresh)
        context.settings_changed.connect(self._calm)
        context.theme_changed.connect(self._dress)

    def enter(self) -> None:
        """Runs are offered where none is open."""
        if self.page.player.trace is None:
            self.offer()
        self.page.setFocus()

    @Slot()
    def _dress(self) -> None:
        self.page.set_theme(self._context.theme)

    @Slot()
    def _calm(self) -> None:
        self.page.set_reduced_motion(self._context.values.reduced_motion)

    # ---------------------------------------------------------------- which run

    def _listed_gallery(self) -> tuple[GalleryTrace, ...]:
        try:
            return engine.gallery()
        except SafelightError as error:
            self._context.say(str(error))
            return ()

    @Slot()
    def offer(self) -> None:
        """Offer the gallery and the runs that were kept last; those that are found from now on follow."""
        self._show_offers()
        self._catalog.look()

    def _show_offers(self) -> None:
        self.page.offer(first_offers(self._gallery, self._catalog.recent))

    @Slot()
    def _list_changed(self) -> None:
        """Other runs are known: show them where runs are to be chosen from."""
        if self.page.player.trace is None:
            self._show_offers()
            return
        self._show_tree()
        if self.compare.is_choosing:
            self._show_others()

    @Slot(object)
    def _say_unlisted(self, problems: list[str]) -> None:
        count = len(problems)
        said = trn(
            "{count} run cannot be listed: {problem}.",
            "{count} runs cannot be listed: {problem}.",
            count,
            problem=problems[0],
        )
        self._context.say(said, "\n".join(problems[:RECENT]) if count > 1 else "")

    @Slot()
    def _offer_others(self) -> None:
        """Offer all runs that the one on show can be compared with; those that are found from now on follow."""
        self._show_others()
        self._catalog.look()

    def _show_others(self) -> None:
        trace, catalog = self.page.player.trace, self._catalog
        if trace is not None:
            listed = self._of_session(), catalog.recent, catalog.gallery
            self.compare.offer(other_offers(trace.header, *listed, self._titles()))

    def _of_session(self) -> list[Listed]:
        """The runs that are in memory: forks, and the answers of the conversation on show; the newest first."""
        answers = [answer.trace for turn in self._context.session.chat.turns for answer in turn.answers.items]
        found = [*self._live.values(), *(trace for trace in answers if trace is not None and trace.events)]
        keyed = [(trace.header, self._key(trace)) for trace in found]
        return sorted(keyed, key=lambda one: one[0].created, reverse=True)

    @Slot(object, bool)
    def inspect(self, run: Recording | Path, is_live: bool = False) -> None:
        """Look into a run, or the file of one, from its beginning; ``is_live`` where it is still under way."""
        if isinstance(run, Path):
            self.open_key(str(run))
            return
        self._context.show_page(INSPECTOR)
        if is_live:
            self.page.follow_live(run)
        else:
            self.page.open_trace(run, 0)

    @Slot(str)
    def open_key(self, key: str) -> None:
        """Open a run by its key, at its beginning."""
        trace = self._read(key)
        if trace is not None:
            self._context.show_page(INSPECTOR)
            self.page.open_trace(trace, 0)

    @Slot()
    def ask_file(self) -> None:
        """Open a trace file of the user's choice."""
        path = self._ask_path()
        if path:
            self.open_key(path)

    @Slot()
    def _ask_other(self) -> None:
        path = self._ask_path()
        if path:
            self._compare_with(path)

    @Slot(str)
    def _compare_with(self, key: str) -> None:
        trace = self._read(key)
        if trace is not None:
            self.compare.set_other(trace)

    def _ask_path(self) -> str:
        form = tr("Traces ({pattern})", pattern=f"*{engine.TRACE_SUFFIX}")
        start = str(self._context.folders.traces)
        return QFileDialog.getOpenFileName(self.page.window(), tr("Open a run"), start, form)[0]

    # ---------------------------------------------------------------- what else it could have been

    @property
    def is_forking(self) -> bool:
        """Whether a fork is under way."""
        return self._asked is not None

    def reason_to_wait(self) -> str:
        """That a fork is under way, in a sentence; empty where none is."""
        return tr("A fork is developing in the inspector; Esc stops it") if self.is_forking else ""

    def stop(self) -> None:
        """Stop the fork under way."""
        self._context.backend.cancel()

    @property
    def _able(self) -> Capabilities:
        """What the loaded model can be asked; nothing where there is none."""
        model = self._context.model
        return Capabilities() if model is None else model.capabilities

    def refusal(self, *, can: bool) -> str:
        """Why the run on show cannot be gone on from now; empty if it can. ``can``: the model's backend knows how."""
        model, trace = self._context.model, self.page.player.trace
        if trace is None:
            return ""
        if self.is_forking or self._context.session.active is not None:
            return tr("A run is under way; Esc stops it.")
        if model is None:
            return tr("Load a model to go on from this run.")
        if not can:
            return tr("This cannot be done with {model}.", model=model.title)
        of = trace.header.model
        if of.fingerprint and of.fingerprint != model.fingerprint:
            return tr("This run is of {model}; load that model to go on from it.", model=of.title or of.name)
        return ""

    @Slot()
    def refresh(self) -> None:
        """What can be asked has changed: another model, or a run that began or ended."""
        model = self._context.model
        self.forks.set_encoder(None if model is None else model.encode)
        self.forks.block(self.refusal(can=self._able.forks))
        self.influence.set_refusal(self.refusal(can=self._able.influence))

    @Slot()
    def _opened(self) -> None:
        self.influence.clear()
        self.refresh()
        trace, other = self.page.player.trace, self.compare.trace
        if trace is None:
            return
        self._show_tree()
        self._catalog.look([trace.header])
        if other is not None and (other.header.id == trace.header.id or asked(other.header) != asked(trace.header)):
            self.compare.set_other(None)

    def _show_tree(self) -> None:
        """What the run that is open was made from, and what was made from it."""
        trace, catalog = self.page.player.trace, self._catalog
        if trace is not None:
            here = [(trace.header, self._key(trace)), *self._of_session()]
            known = [*here, *catalog.recent, *catalog.ancestors, *catalog.gallery]
            self.forks.show_runs(run_tree(trace.header, known, self._titles(), self._pieces), trace.header.id)

    def _titles(self) -> dict[str, str]:
        """What the gallery's runs are called, by key."""
        return {str(one.path): tr(one.title) for one in self._gallery}

    def _pieces(self, header: TraceHeader) -> Piece | None:
        """How a run's tokens are written, where it is in memory or its model is loaded."""
        trace, model = self.page.player.trace, self._context.model
        known = self._live.get(header.id, trace if trace is not None and trace.header.id == header.id else None)
        if known is not None:
            return known.piece
        is_loaded = model is not None and model.fingerprint == header.model.fingerprint
        return model.piece if model is not None and is_loaded else None

    def _key(self, trace: Recording) -> str:
        if trace.path is not None:
            return str(trace.path)
        self._live[trace.header.id] = trace
        return trace.header.id

    @Slot(object)
    def _fork(self, change: Fork) -> None:
        trace = self.page.player.trace
        if trace is None:
            return
        if change.block in {mark.block for mark in trace.header.marks}:
            self.forks.say(tr("This block was written anew in a span; fork the run that it comes from."))
            return
        try:
            changes = engine.chain(trace.header.changes, change)
        except SafelightError as error:
            self.forks.say(str(error))
            return
        self._start(RunRequest.fork(trace, changes))

    @Slot(object)
    def _infill(self, marks: tuple[Mark, ...]) -> None:
        trace = self.page.player.trace
        if trace is not None:
            self._start(RunRequest.infill(trace, marks, self._context.values.next_seed()))

    def _start(self, request: RunRequest) -> None:
        refusal = self.refusal(can=self._able.forks if request.kind == "fork" else self._able.infill)
        if refusal:
            self.forks.say(refusal)
            return
        self._asked = request
        self._context.busy_changed.emit()
        self._context.backend.run(request)

    @Slot()
    def _grow(self) -> None:
        self.page.refresh(self._context.backend.pacing.share)

    @Slot(object)
    def take(self, replies: list[ServiceReply]) -> None:
        """Take in what arrived of a fork or of a measurement."""
        for reply in replies:
            match reply:
                case RunStarted() | RunAdvanced() | RunEnded():
                    if self._asked is not None and reply.run_id == self._asked.run_id:
                        self._take_fork(reply)
                case InfluenceMeasured(request, found, problem):
                    self._measured(request, found, tr(problem) if problem else "")

    def _take_fork(self, reply: RunStarted | RunAdvanced | RunEnded) -> None:
        match reply:
            case RunStarted(_, trace):
                parent = self.page.player.trace
                self._key(trace)
                self.page.follow_live(trace)
                self.compare.set_other(parent)
            case RunAdvanced():
                self._grow()
            case RunEnded(_, problem, details):
                self._asked = None
                said = tr(problem) if problem else ""
                self.page.run_ended()
                self.refresh()
                self.forks.say(said)
                if details:
                    self._context.say(said, details)
                self._show_tree()
                self._catalog.look()

    # ---------------------------------------------------------------- influence

    @Slot(int, str)
    def _measure_text(self, position: int, text: str) -> None:
        model = self._context.model
        ids = [] if model is None or not text else model.encode(text)
        if len(ids) != 1:
            said = tr("{text} is {count} tokens; it must be one.", text=repr(text), count=len(ids))
            self.influence.show_problem(self.refusal(can=self._able.influence) or said)
            return
        self._measure(position, ids[0])

    @Slot(int, int)
    def _measure(self, position: int, token: int) -> None:
        player, refusal = self.page.player, self.refusal(can=self._able.influence)
        trace, snapshot, record = player.trace, player.snapshot, player.block
        if refusal or trace is None or snapshot is None or record is None:
            self.influence.show_problem(refusal)
            return
        self.influence.set_busy(True)
        step = min(max(0, snapshot.step), len(record.temperature) - 1)
        temperature = float(record.temperature[step]) if len(record.temperature) else 1.0
        canvas = tuple(int(one) for one in snapshot.tokens(calm=True))
        request = InfluenceRequest(trace, snapshot.block_index, canvas, position, token, temperature)
        self._context.backend.measure(request)

    def _measured(self, request: InfluenceRequest, found: Influence | None, problem: str) -> None:
        snapshot = self.page.player.snapshot
        if found is None:
            self.influence.show_problem(problem)
        elif self.page.player.trace is request.trace and snapshot is not None and len(found.kl) == snapshot.length:
            self.influence.show_influence(request.position, request.canvas[request.position], request.token, found.kl)
        else:
            self.influence.set_busy(False)

    # ---------------------------------------------------------------- reading

    def _read(self, key: str) -> Recording | None:
        if key in self._live:
            return self._live[key]
        try:
            return engine.open_trace(Path(key))
        except SafelightError as error:
            self._context.say(str(error))
            return None


def build(context: AppContext) -> InspectorController:
    """The inspector."""
    return InspectorController(context)

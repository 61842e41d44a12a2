"""The inspector's dealings with runs: which can be looked at, forking, writing anew, influence. Part of the window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QFileDialog

import engine
from app.bridge.messages import (
    ForkEnded,
    ForkGrown,
    ForkRequest,
    ForkStarted,
    InfluenceMeasured,
    InfluenceRequest,
    Message,
)
from app.design.tokens import Theme
from app.inspector.compare.view import Compare
from app.inspector.compare.words import run_title, short_difference
from app.inspector.forks.panel import ForkPanel, RunItem
from app.inspector.influence.view import InfluenceView
from app.inspector.page import InspectorPage
from app.inspector.run_cards import Offer
from app.inspector.run_catalog import KeptRuns
from app.state.chat.conversation import Turn
from app.state.run.comparison import asked
from app.system.i18n import tr, trn
from app.window.topbar import INSPECTOR
from engine import Fork, GalleryTrace, Mark, SafelightError, TraceHeader
from engine.files import is_bare_name

if TYPE_CHECKING:
    from app.window.main_window import MainWindow
    from engine import Influence

RECENT = 20  # runs that are offered
MOST_PROMPT = 1_000  # characters that are looked at for a title


class Inspecting(QObject):
    """Opens runs in the inspector. A run's key is its file's path, or its id where it is in memory."""

    def __init__(self, window: MainWindow, theme: Theme, reduced_motion: bool) -> None:
        super().__init__(window)
        self._window = window
        self.page = page = InspectorPage(theme, reduced_motion)
        self._live: dict[str, Any] = {}  # runs of this session, by id
        self._kept = KeptRuns(window.folders.traces)
        self.forks = ForkPanel(page.player)
        self.influence = InfluenceView(page.player)
        self.compare = Compare(page.player, page.overview)
        page.add_panel(tr("Fork"), self.forks, works=True)
        page.add_panel(tr("Influence"), self.influence, works=True)
        page.add_view(tr("Compare"), tr("Compare this run with another"), self.compare)
        self._forking = False
        self.forks.fork_asked.connect(self._fork)
        self.forks.infill_asked.connect(self._infill)
        self.forks.run_chosen.connect(self.open_key)
        self.influence.asked.connect(self._measure)
        self.influence.asked_text.connect(self._measure_text)
        page.player.opened.connect(self._opened)
        page.file_asked.connect(self.ask_file)
        page.chosen.connect(self.open_key)
        page.closed.connect(self.offer)
        self.compare.wanted.connect(self._offer_others)
        self.compare.chosen.connect(self._compare_with)
        self.compare.file_asked.connect(self._ask_other)
        window.session.progressed.connect(page.refresh)
        window.session.ended.connect(page.run_ended)

    # ---------------------------------------------------------------- which run

    @Slot()
    def offer(self) -> None:
        """Offer the gallery and the runs that were kept last."""
        offers = [Offer(tr(one.title), tr(one.note), str(one.path), tr("Gallery")) for one in self._gallery()]
        for header, key in self._recent():
            offers.append(Offer(_prompt(header), f"{_when(header)} · {run_title(header)}", key, tr("Your runs")))
        self.page.offer(offers)
        problems = self._kept.problems()
        if problems:
            count = len(problems)
            said = trn(
                "{count} run cannot be listed: {problem}.",
                "{count} runs cannot be listed: {problem}.",
                count,
                problem=problems[0],
            )
            self._window.say(said, "\n".join(problems[:RECENT]) if count > 1 else "")

    @Slot()
    def _offer_others(self) -> None:
        """Offer all runs that the one on show can be compared with, those of the same prompt first."""
        trace = self.page.player.trace
        if trace is None:
            return
        here = trace.header
        gallery = {str(one.path): one for one in self._gallery()}
        found = [(header, key, tr("This session")) for header, key in self._of_session()]
        found += [(header, key, tr("Your runs")) for header, key in self._recent()]
        listed = self._kept.headers(one.path for one in gallery.values())
        found += [(header, key, tr("Gallery")) for header, key in listed]
        seen = {here.id}
        offers = []
        for header, key, section in found:
            if header.id in seen:
                continue
            seen.add(header.id)
            alike = asked(header) == asked(here)
            of = tr(gallery[key].title) if key in gallery else ""
            if alike:
                title, hint = run_title(header), short_difference(here, header)
                offers.append(Offer(title, " · ".join(filter(None, (of or _when(header), hint))), key, _alike()))
            else:
                offers.append(Offer(of or _prompt(header), run_title(header), key, section))
        order = (_alike(), tr("This session"), tr("Your runs"), tr("Gallery"))
        self.compare.offer(sorted(offers, key=lambda offer: order.index(offer.section)))

    def _gallery(self) -> tuple[GalleryTrace, ...]:
        try:
            return engine.gallery()
        except SafelightError as error:
            self._window.say(str(error))
            return ()

    def _recent(self) -> Iterator[tuple[TraceHeader, str]]:
        return self._kept.headers(self._kept.newest(RECENT))

    def _of_session(self) -> list[tuple[TraceHeader, str]]:
        """The runs that are in memory: forks, and the answers of the conversation on show; the newest first."""
        answers = [answer.trace for turn in self._window.session.chat.turns for answer in turn.answers.items]
        found = [*self._live.values(), *(trace for trace in answers if trace is not None and trace.events)]
        keyed = [(trace.header, self._key(trace)) for trace in found]
        return sorted(keyed, key=lambda one: one[0].created, reverse=True)

    @Slot(object)
    def inspect(self, turn: Turn) -> None:
        """Look into the answer on show of a turn."""
        answer = turn.answer
        if answer.trace is not None:
            self._window.show_page(INSPECTOR)
            if answer.is_active:
                self.page.follow_live(answer.trace)
            else:
                self.page.open_trace(answer.trace, 0)
        elif is_bare_name(answer.trace_id):
            self.open_key(str(self._window.folders.traces / f"{answer.trace_id}{engine.TRACE_SUFFIX}"))

    @Slot(str)
    def open_key(self, key: str) -> None:
        """Open a run by its key, at its beginning."""
        trace = self._read(key)
        if trace is not None:
            self._window.show_page(INSPECTOR)
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
        start = str(self._window.folders.traces)
        return QFileDialog.getOpenFileName(self._window, tr("Open a run"), start, form)[0]

    # ---------------------------------------------------------------- what else it could have been

    @property
    def is_forking(self) -> bool:
        """Whether a fork is under way."""
        return self._forking

    def refusal(self) -> str:
        """Why the run on show cannot be gone on from now; empty if it can."""
        model, trace = self._window.model, self.page.player.trace
        if trace is None:
            return ""
        if self._forking or self._window.session.active is not None:
            return tr("A run is under way; Esc stops it.")
        if model is None:
            return tr("Load a model to go on from this run.")
        of = trace.header.model
        if of.fingerprint and of.fingerprint != model.fingerprint:
            return tr("This run is of {model}; load that model to go on from it.", model=of.title or of.name)
        return ""

    @Slot()
    def refresh(self) -> None:
        """What can be asked has changed: another model, or a run that began or ended."""
        model = self._window.model
        self.forks.set_encoder(None if model is None else model.encode)
        self.forks.block(self.refusal())
        self.influence.set_refusal(self.refusal())

    @Slot()
    def _opened(self) -> None:
        self.influence.clear()
        self.refresh()
        trace, other = self.page.player.trace, self.compare.trace
        if trace is None:
            return
        self.forks.show_runs(self._tree(), self._key(trace))
        if other is not None and (other.header.id == trace.header.id or asked(other.header) != asked(trace.header)):
            self.compare.set_other(None)

    def _tree(self) -> list[RunItem]:
        """The kept runs and those of this session, parents before their forks."""
        headers = {header.id: (header, key) for header, key in self._recent()}
        for trace in [*self._live.values(), self.page.player.trace]:
            headers.setdefault(trace.header.id, (trace.header, self._key(trace)))
        items = []
        for header, key in sorted(headers.values(), key=lambda found: found[0].created):
            parent = headers[header.parent.id][1] if header.parent is not None and header.parent.id in headers else ""
            items.append(RunItem(key, parent, self._run_title(header)))
        return items

    @staticmethod
    def _run_title(header: TraceHeader) -> str:
        if header.marks:
            blocks = sorted({mark.block + 1 for mark in header.marks})
            return trn(
                "Block {blocks}: {count} span written anew",
                "Block {blocks}: {count} spans written anew",
                len(header.marks),
                blocks=", ".join(map(str, blocks)),
            )
        if header.changes:
            newest = header.changes[-1]
            return tr("Forked at block {block}, step {step}", block=newest.block + 1, step=newest.step)
        return " ".join(header.prompt[:MOST_PROMPT].split())[:60]

    def _key(self, trace: Any) -> str:
        path = getattr(trace, "path", None)
        if path is None:
            self._live[trace.header.id] = trace
        return trace.header.id if path is None else str(path)

    @Slot(object)
    def _fork(self, change: Fork) -> None:
        trace = self.page.player.trace
        if change.block in {mark.block for mark in trace.header.marks}:
            self.forks.say(tr("This block was written anew in a span; fork the run that it comes from."))
            return
        try:
            changes = engine.chain(trace.header.changes, change)
        except SafelightError as error:
            self.forks.say(str(error))
            return
        self._start(ForkRequest(trace, changes=changes))

    @Slot(object)
    def _infill(self, marks: tuple[Mark, ...]) -> None:
        request = ForkRequest(self.page.player.trace, marks=marks, seed=self._window.values.next_seed())
        self._start(request)

    def _start(self, request: ForkRequest) -> None:
        refusal = self.refusal()
        if refusal:
            self.forks.say(refusal)
            return
        self._forking = True
        self.refresh()
        self._window.link.fork(request)

    def take(self, message: Message) -> None:
        """Take in what arrived of a fork or of a measurement."""
        match message:
            case ForkStarted(trace):
                parent = self.page.player.trace
                self._key(trace)
                self.page.follow_live(trace)
                self.compare.set_other(parent)
            case ForkGrown():
                self.page.refresh()
            case ForkEnded(problem, details):
                self._forking = False
                self.page.run_ended()
                self.refresh()
                self.forks.say(problem)
                if details:
                    self._window.say(problem, details)
                if self.page.player.trace is not None:
                    self.forks.show_runs(self._tree(), self._key(self.page.player.trace))
            case InfluenceMeasured(request, found, problem):
                self._measured(request, found, problem)

    # ---------------------------------------------------------------- influence

    @Slot(int, str)
    def _measure_text(self, position: int, text: str) -> None:
        model = self._window.model
        ids = [] if model is None or not text else model.encode(text)
        if len(ids) != 1:
            said = tr("{text} is {count} tokens; it must be one.", text=repr(text), count=len(ids))
            self.influence.show_problem(self.refusal() or said)
            return
        self._measure(position, ids[0])

    @Slot(int, int)
    def _measure(self, position: int, token: int) -> None:
        player, refusal = self.page.player, self.refusal()
        snapshot, record = player.snapshot, player.block
        if refusal or snapshot is None or record is None:
            self.influence.show_problem(refusal)
            return
        self.influence.set_busy(True)
        step = min(max(0, snapshot.step), len(record.temperature) - 1)
        temperature = float(record.temperature[step]) if len(record.temperature) else 1.0
        canvas = tuple(int(one) for one in snapshot.tokens(calm=True))
        request = InfluenceRequest(player.trace, snapshot.block_index, canvas, position, token, temperature)
        self._window.link.influence(request)

    def _measured(self, request: InfluenceRequest, found: Influence | None, problem: str) -> None:
        snapshot = self.page.player.snapshot
        if found is None:
            self.influence.show_problem(problem)
        elif self.page.player.trace is request.trace and snapshot is not None and len(found.kl) == snapshot.length:
            self.influence.show_influence(request.position, request.canvas[request.position], request.token, found.kl)
        else:
            self.influence.set_busy(False)

    # ---------------------------------------------------------------- reading

    def _read(self, key: str) -> Any:
        if key in self._live:
            return self._live[key]
        try:
            return engine.open_trace(Path(key))
        except SafelightError as error:
            self._window.say(str(error))
            return None


def _prompt(header: TraceHeader) -> str:
    return " ".join(header.prompt[:MOST_PROMPT].split())[:80]


def _when(header: TraceHeader) -> str:
    return header.created_at.astimezone().strftime("%x %H:%M")


def _alike() -> str:
    return tr("The same prompt")

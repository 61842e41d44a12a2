"""The inspector's dealings with runs: which can be looked at, forking, writing anew, influence. Part of the window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QFileDialog

import engine
from app.inspector.compare import Compare
from app.inspector.fork_panel import ForkPanel, RunItem
from app.inspector.influence_view import InfluenceView
from app.inspector.page import InspectorPage
from app.language import tr
from app.messages import (
    ForkEnded,
    ForkGrown,
    ForkRequest,
    ForkStarted,
    InfluenceMeasured,
    InfluenceRequest,
    Message,
)
from app.state.chat_state import Turn
from app.theme import Theme
from app.topbar import INSPECTOR
from engine import Fork, Mark, SafelightError, TraceHeader

if TYPE_CHECKING:
    from app.window import MainWindow
    from engine import Influence

RECENT = 20  # runs that are offered


class Inspecting(QObject):
    """Opens runs in the inspector. A run's key is its file's path, or its id where it is in memory."""

    def __init__(self, window: MainWindow, theme: Theme, reduced_motion: bool) -> None:
        super().__init__(window)
        self._window = window
        self.page = page = InspectorPage(theme, reduced_motion)
        self._live: dict[str, Any] = {}  # runs of this session, by id
        self.forks = ForkPanel(page.player)
        self.influence = InfluenceView(page.player)
        self.compare = Compare(page.player)
        for title, panel in (
            (tr("Fork"), self.forks),
            (tr("Influence"), self.influence),
            (tr("Compare"), self.compare),
        ):
            page.add_panel(title, panel)
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
        self.compare.other_asked.connect(self._ask_other)
        window.session.progressed.connect(page.refresh)
        window.session.ended.connect(page.refresh)

    # ---------------------------------------------------------------- which run

    @Slot()
    def offer(self) -> None:
        """Offer the gallery and the runs that were kept last."""
        offers = []
        try:
            found = engine.gallery()
        except SafelightError as error:
            self._window.say(str(error))
            found = ()
        offers += [(tr(one.title), tr(one.note), str(one.path), tr("Gallery")) for one in found]
        for path in self._kept()[:RECENT]:
            try:
                header = engine.open_trace(path).header
            except SafelightError:
                continue  # it is told when it is asked for by name
            hint = tr("{model}, seed {seed}", model=header.model.title or header.model.name, seed=header.seed)
            when = header.created_at.astimezone().strftime("%x %H:%M")
            offers.append((" ".join(header.prompt.split())[:80], f"{when} · {hint}", str(path), tr("Your runs")))
        self.page.offer(offers)

    def _kept(self) -> list[Path]:
        """Files of runs, the newest first."""
        folder = self._window.folders.traces
        dated = []
        for path in folder.glob(f"*{engine.TRACE_SUFFIX}"):
            try:
                dated.append((path.stat().st_mtime, path))
            except OSError:
                continue  # it was pruned a moment ago
        return [path for _, path in sorted(dated, reverse=True)]

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
        elif answer.trace_id:
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
        trace = self._read(path) if path else None
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
        trace = self.page.player.trace
        if trace is not None:
            self.forks.show_runs(self._tree(), self._key(trace))

    def _tree(self) -> list[RunItem]:
        """The kept runs and those of this session, parents before their forks."""
        headers: dict[str, tuple[Any, str]] = {}
        for path in self._kept()[:RECENT]:
            try:
                header = engine.open_trace(path).header
            except SafelightError:
                continue
            headers[header.id] = (header, str(path))
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
            return tr("Block {block}: a span written anew", block=header.marks[0].block + 1)
        if header.changes:
            newest = header.changes[-1]
            return tr("Forked at block {block}, step {step}", block=newest.block + 1, step=newest.step)
        return " ".join(header.prompt.split())[:60]

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

    @Slot(int, object)
    def _infill(self, block: int, positions: tuple[int, ...]) -> None:
        trace = self.page.player.trace
        mark = Mark(block, positions[0], positions[-1] + 1)
        self._start(ForkRequest(trace, marks=(mark,), seed=self._window.values.next_seed()))

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
            case ForkEnded(problem, _):
                self._forking = False
                self.page.refresh()
                self.refresh()
                self.forks.say(problem)
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

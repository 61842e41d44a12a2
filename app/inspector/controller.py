"""The inspector's controller: it lists runs to open and to compare, opens them, and shows how they are related."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QFileDialog

import engine
from app.bridge.background import Background
from app.bridge.engine_thread import RunHandle
from app.bridge.server_link import is_unfinished
from app.context import INSPECTOR, AppContext, Lazy
from app.design.notice import Notice
from app.inspector.continuations import Continuations
from app.inspector.export_dialog import ExportDialog
from app.inspector.page import CELL, InspectorPage
from app.inspector.run_cards import RunKeeping
from app.inspector.run_catalog import RECENT, Listed, RunCatalog, first_offers, other_offers, run_tree
from app.inspector.run_pictures import pictures_of
from app.inspector.words import Piece
from app.player.player import Player
from app.state.run.comparison import asked
from app.system.i18n import tr, trn
from engine import Recording, SafelightError, TraceHeader
from engine.trace import TraceFile

if TYPE_CHECKING:
    from app.inspector.guide.guide import Guide

Found = TypeVar("Found")


class InspectorController(QObject):
    """Opens runs in the inspector. A run's key is its file's path, or its id if it is only in memory."""

    _export_closed = Signal()

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.widget = self.page = page = InspectorPage()
        self.setParent(page)  # so that no signal arrives after the page is deleted
        self._over = Notice()
        self._over.float_over(page.main)  # not over the controls of time
        self.guide = Lazy(self._make_guide)
        self._handle: RunHandle | None = None  # of the open run, while it goes on
        self._live: dict[str, Recording] = {}  # runs of this session, by id
        self._gallery: tuple[engine.GalleryTrace, ...] = self._read_or_say(lambda: engine.gallery(), ())
        gallery = [one.path for one in self._gallery]
        of_deleted = partial(self._read_or_say, context.library.hidden_runs, frozenset[str]())
        self._catalog = RunCatalog(context.folders.traces, gallery, self, of_deleted)
        self.keeping = RunKeeping(page.welcome.runs, context.folders.traces, context.say)
        self.keeping.changed.connect(self._catalog.look)
        self._catalog.changed.connect(self._list_changed)
        self._catalog.failed.connect(self._say_unlisted)
        page.titles = self._titles()
        page.canvas.calm_chosen.connect(self._keep_view)
        context.settings_changed.connect(self._take_view)
        self._take_view()
        self._painting = Background(self, page.welcome.runs.show_pictures)
        self._painting.ask(lambda: pictures_of(gallery))
        self.forks, self.compare = page.change.forks, page.compare
        self.continuations = Continuations(context, page.player, self.forks, page.change.influence, page.change.opinion)
        self.continuations.began.connect(self._began)
        self.continuations.ended.connect(self._ended)
        self.continuations.opined.connect(page.show_opinion)
        self.forks.run_chosen.connect(self.open_key)
        self.forks.spans.marked.connect(page.canvas.set_marked)
        page.player.opened.connect(self._opened)
        for opener in (page.open_button, page.welcome.open):
            opener.clicked.connect(self.ask_file)
        page.welcome.runs.chosen.connect(self.open_key)
        page.closed.connect(self.offer)
        page.export_asked.connect(self._export)
        self.compare.wanted.connect(self._show_others)
        self.compare.wanted.connect(lambda: self._catalog.look())  # for further runs, which are added
        self.compare.chooser.runs.chosen.connect(self._compare_with)
        self.compare.chooser.open_file.clicked.connect(lambda: self._ask(self._compare_with))
        context.server.requests_changed.connect(self._grow_served)

    @Slot()
    def _take_view(self) -> None:
        """Shows noise or best guesses as the settings say; the chat does the same."""
        self.page.canvas.set_calm(self._context.values.calm)

    @Slot(bool)
    def _keep_view(self, calm: bool) -> None:
        self._context.values.calm = calm
        self._context.apply_values()

    @property
    def notice(self) -> Notice | None:
        """The message over the open run; without one the window shows messages."""
        return None if self.page.player.trace is None else self._over

    def enter(self) -> None:
        """Shows the runs to open if none is open, or if the file of the open one was deleted."""
        trace = self.page.player.trace
        if isinstance(trace, TraceFile) and trace.path is not None and not trace.path.exists():
            self.page.close_trace()
        if self.page.player.trace is None:
            self.offer()
        self.page.setFocus()

    def _make_guide(self) -> Guide:
        from app.inspector.guide.guide import Guide  # needed by those who ask for it only

        guide = Guide(self._context, self.page, self.continuations, self.open_key)
        self._export_closed.connect(guide.note_export)
        return guide

    def _read_or_say(self, read: Callable[[], Found], otherwise: Found) -> Found:
        """Returns what is read, or the other value, with the reason for the user."""
        try:
            return read()
        except SafelightError as error:
            self._context.say(str(error))
            return otherwise

    @Slot()
    def offer(self) -> None:
        """Shows the gallery and the runs known so far, and looks for further runs, which are added."""
        self._over.hide()  # what was said of the run that is closed now
        self._show_offers()
        self._catalog.look()

    def _show_offers(self) -> None:
        look = self._catalog.found
        self.page.welcome.runs.offer(first_offers(self._gallery, look.recent, look.names), folded=tr("Your runs"))

    @Slot()
    def _list_changed(self) -> None:
        """Updates the lists of runs to choose from."""
        self.page.titles = self._titles()
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
    def _show_others(self) -> None:
        """Shows the runs that the open one can be compared with."""
        trace, look = self.page.player.trace, self._catalog.found
        if trace is not None:
            listed = self._of_session(), look.recent, look.gallery
            self.compare.chooser.runs.offer(other_offers(trace.header, *listed, self._titles()))

    def _of_session(self) -> list[Listed]:
        """Returns the runs in memory, newest first: forks, and the answers of the current conversation."""
        answers = [answer.trace for turn in self._context.session.chat.turns for answer in turn.answers.items]
        traces = [*self._live.values(), *(trace for trace in answers if trace is not None and trace.events)]
        keyed = [(trace.header, self._key(trace)) for trace in traces if trace.header.canvas_length]
        return sorted(keyed, key=lambda one: one[0].created, reverse=True)

    def inspect(self, run: Recording | Path, place: int = -1) -> None:
        """Opens a run, or the file of one, at a frame of it, -1 for its first step; follows one that still runs."""
        if isinstance(run, Path):
            self.open_key(str(run), place)
        elif not self._refuse_text(run):
            self._open(run, place)

    def _open(self, run: Recording, place: int) -> None:
        """Opens a run, another one than the open one in the first of its tabs."""
        self._context.navigator.show_page(INSPECTOR)
        before = self.page.player.trace
        if before is None or before.header.id != run.header.id:
            self.page.side.setCurrentIndex(CELL)
        served = next((one for one in self._context.server.requests if one.trace is run), None)
        if self._follow(run) or (served is not None and is_unfinished(served)):
            self.page.follow_live(run)
        else:
            self.page.open_trace(run, place)

    def _follow(self, run: Recording) -> bool:
        """Shows further events of a run as they come; returns False if none will."""
        self._handle = handle = self._context.backend.handle_of(run)
        if handle is None:
            return False
        handle.changed.connect(self._grow)
        handle.revealed.connect(self._grow)
        handle.ended.connect(self._run_ended)
        return True

    @Slot()
    def _grow(self) -> None:
        if self._handle is not None and self._handle is self.sender():
            self.page.refresh(self._handle.share)

    @Slot()
    def _run_ended(self) -> None:
        if self._handle is not None and self._handle is self.sender():
            self.page.run_ended()

    def compare_runs(self, run: Recording, other: Recording) -> None:
        self.inspect(run)
        if self.page.player.trace is run:
            self.compare.set_other(other)
            self.page.show_view(1)

    def export(self, run: Recording) -> None:
        """Opens the export dialog for a run, which need not be the open one."""
        if not self._refuse_text(run):
            player = Player()
            player.open(run)
            self._export(player)

    @Slot(object)
    def _export(self, player: Player) -> None:
        dialog = ExportDialog(player, self.page.window())
        dialog.exported.connect(self._context.confirm_export)
        dialog.finished.connect(self._export_closed)
        dialog.open()

    @Slot(str)
    def open_key(self, key: str, place: int = -1) -> None:
        """Opens a run by its key, at a frame of it, -1 for its first step."""
        trace = self._read(key)
        if trace is not None:
            self._open(trace, place)

    @Slot()
    def ask_file(self) -> None:
        """Lets the user choose a trace file and opens it."""
        self._ask(self.open_key)

    @Slot(str)
    def _compare_with(self, key: str) -> None:
        trace = self._read(key)
        if trace is not None:
            self.compare.set_other(trace)

    def _ask(self, use: Callable[[str], object]) -> None:
        form = tr("Recorded runs ({pattern})", pattern=f"*{engine.TRACE_SUFFIX}")
        start = str(self._context.folders.traces)
        if path := QFileDialog.getOpenFileName(self.page.window(), tr("Open a run"), start, form)[0]:
            use(path)

    @Slot()
    def _opened(self) -> None:
        trace, other = self.page.player.trace, self.compare.trace
        if trace is None:
            return
        self._show_tree()
        self._catalog.look([trace.header])
        if other is not None and (other.header.id == trace.header.id or asked(other.header) != asked(trace.header)):
            self.compare.set_other(None)

    def _show_tree(self) -> None:
        """Shows the tree of runs that the open run was made from and that were made from it."""
        trace, look = self.page.player.trace, self._catalog.found
        if trace is not None:
            here = [(trace.header, self._key(trace)), *self._of_session()]
            known = [*here, *look.recent, *look.ancestors, *look.gallery]
            self.forks.show_runs(run_tree(trace.header, known, self._titles(), self._pieces), trace.header.id)

    def _titles(self) -> dict[str, str]:
        """Returns the titles of the gallery's runs, and the names of the user's, by key."""
        return {str(one.path): tr(one.title) for one in self._gallery} | dict(self._catalog.found.names)

    def _pieces(self, header: TraceHeader) -> Piece | None:
        """Returns the function from token to text, if the run is in memory or its model is loaded."""
        trace, model = self.page.player.trace, self._context.model
        known = self._live.get(header.id, trace if trace is not None and trace.header.id == header.id else None)
        if known is not None:
            return known.piece
        part = None if model is None else model.part(header.model.name)
        return part.piece if part is not None and part.fingerprint == header.model.fingerprint else None

    def _key(self, trace: Recording) -> str:
        if trace.path is not None:
            return str(trace.path)
        self._live[trace.header.id] = trace
        return trace.header.id

    @Slot(object)
    def _began(self, trace: Recording) -> None:
        """Follows a run that was forked from the open one, and compares it with that one."""
        parent = self.page.player.trace
        self._key(trace)
        self._follow(trace)
        self.page.follow_live(trace)
        self.compare.set_other(parent)

    @Slot()
    def _ended(self) -> None:
        self.page.run_ended()
        self._show_tree()
        self._catalog.look()

    @Slot()
    def _grow_served(self) -> None:
        trace = self.page.player.trace
        served = next((one for one in self._context.server.requests if trace is not None and one.trace is trace), None)
        if served is not None:
            self.page.refresh()
            if not is_unfinished(served):
                self.page.run_ended()

    def _read(self, key: str) -> Recording | None:
        if key in self._live:
            return self._live[key]
        trace = self._read_or_say(lambda: engine.open_trace(Path(key)), None)
        return None if trace is None or self._refuse_text(trace) else trace

    def _refuse_text(self, run: Recording) -> bool:
        """Refuses a run that arrived as text only, and shows why. Returns True if it was refused."""
        if run.header.canvas_length or run.header.decision or all(entry.kind != "text" for entry in run.entries):
            return False
        self._context.say(tr("This run has no steps to look at: the server that ran its model sent only text."))
        return True


build = InspectorController

"""Connects the Sudoku page to the engine: solving, side by side, the scoreboard's batch, pictures and adapters."""

from __future__ import annotations

import functools

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QFileDialog

from app.context import SUDOKU, AppContext
from app.pictures.files import Pasted
from app.session.session import title_of
from app.settings.values import later_seed
from app.state.adapters import adapters_for, title_of_adapter
from app.state.sudoku.scores import Request
from app.sudoku.batch import PuzzleBatch
from app.sudoku.board.run_board import RunBoard
from app.sudoku.contenders import Contender, contenders, obstacle, unadapted
from app.sudoku.job_queue import JobQueue, PuzzleJob
from app.sudoku.page import SudokuPage
from app.sudoku.picture_reader import PictureReader
from app.sudoku.side_by_side import BoardSide
from app.system.i18n import tr
from engine import SUDOKU as SUDOKU_MODEL
from engine.service import AdapterChanged, ServiceReply


class SudokuController(QObject):
    """The controller of the Sudoku page. It runs one puzzle, a pair or a batch at a time."""

    notice = None  # errors go through ``context.say``

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.widget = self.page = page = SudokuPage()
        self.setParent(page)  # so that no signal arrives after the page is deleted
        self.queue = JobQueue(context, self)
        self.reader = PictureReader(context, self)
        self.batch = PuzzleBatch(self.queue, page.scores, self)
        self._folders: list[str] = []  # adapters that the user has opened
        self._offered: object = None  # the models and adapters that the choosers were filled from
        one, column = page.one, page.one.column
        column.solve.clicked.connect(self.solve)
        column.adapter_chosen.connect(self._adapt)
        column.adapter_folder_asked.connect(self._ask_adapter)
        column.inspect.clicked.connect(lambda: self._inspect(one.run))
        column.picture.clicked.connect(self.ask_picture)
        one.board.pictured.connect(self.read_picture)
        self.reader.opened.connect(one.show_picture)
        self.reader.advanced.connect(one.show_reading)
        self.reader.ended.connect(one.end_reading)
        self.reader.changed.connect(context.busy_changed)
        one.changed.connect(self.refresh)
        page.side_by_side.solve.clicked.connect(self.solve_both)
        page.side_by_side.bins.asked.connect(one.new_puzzle)
        for side in page.side_by_side.sides:
            side.folder_asked.connect(functools.partial(self._ask_contender, side))
            side.inspect.clicked.connect(functools.partial(self._inspect, side.run))
        page.scores.run_asked.connect(self._run_batch)
        for asked in (column.stop.clicked, page.side_by_side.stop.clicked, page.scores.stop_asked):
            asked.connect(self.stop)
        page.scores.failed.connect(context.say)
        self.queue.changed.connect(context.busy_changed)
        self.batch.changed.connect(context.busy_changed)
        context.register_busy(self)
        context.arrived.connect(self.take)
        context.busy_changed.connect(self.refresh)
        context.models_changed.connect(self.refresh)
        context.settings_changed.connect(self._show_pace)
        for part in (one, page.side_by_side):
            part.scrub.pace_chosen.connect(context.choose_pace)
        self._show_pace()
        self.refresh()

    def enter(self) -> None:
        """Moves the keyboard focus to the board."""
        self.page.setFocus()

    @Slot()
    def _show_pace(self) -> None:
        self.page.set_pace(self._context.values.pace)

    @property
    def is_busy(self) -> bool:
        """True while a puzzle is being solved or read, or a model loaded for one."""
        return self.queue.is_busy or self.batch.is_on or self.reader.is_busy

    def reason_to_wait(self) -> str:
        """A sentence that says that a puzzle is being solved or read; empty if none is."""
        if self.reader.is_busy:
            return tr("A puzzle is being read from a picture; Esc stops it")
        if self.queue.skips:
            return tr("A puzzle is still being shown; Esc skips to its end")
        return tr("A puzzle is being solved; Esc stops it") if self.is_busy else ""

    @Slot()
    def solve(self) -> None:
        """Solves the puzzle with the loaded model, or with Safelight Sudoku if that cannot write a board."""
        one, model = self.page.one, self._context.model
        if self._reason() or not one.check.runs:
            return
        contender = Contender(SUDOKU_MODEL) if self._offer() else None
        seed = self._context.values.next_seed()
        title = title_of(model) if model is not None and contender is None else Contender(SUDOKU_MODEL).title
        facts = tr("{model}, seed {seed}", model=title, seed=seed)
        one.expect(tr("{facts}, givens clamped", facts=facts) if self.page.clamp else facts)
        self.page.show_part("one")
        self.queue.add([PuzzleJob(contender, one.puzzle.cells, seed, self.page.clamp, one.run)])

    @Slot()
    def solve_both(self) -> None:
        """Solves the puzzle with both contenders, one after the other, with the same seed."""
        both, one = self.page.side_by_side, self.page.one
        left, right = both.left.contender, both.right.contender
        if self._reason() or not one.check.runs or left is None or right is None:
            return
        puzzle, seed = one.puzzle.cells, self._context.values.next_seed()
        seeds = (seed, later_seed(seed, int(left == right)))  # one contender twice with one seed would repeat the run
        both.expect(puzzle)
        self.queue.add(
            PuzzleJob(side.contender, puzzle, own, self.page.clamp, side.run)
            for side, own in zip(both.sides, seeds, strict=True)
        )

    @Slot()
    def stop(self) -> None:
        """Stops the running job within one denoising step, and drops the waiting ones."""
        self.reader.stop()
        self.batch.stop()
        self.queue.stop()

    @Slot(object)
    def _run_batch(self, request: Request) -> None:
        model = self._context.model
        if self._reason():
            return
        if self._offer() or model is None:
            contender = Contender(SUDOKU_MODEL)
            self.batch.begin(request, contender.title, contender)
        else:
            self.batch.begin(request, title_of(model))

    @Slot()
    def ask_picture(self) -> None:
        """Lets the user choose a picture, and reads the puzzle in it."""
        path, _ = QFileDialog.getOpenFileName(self.page.window(), tr("Open a picture of a Sudoku"))
        if path:
            self.read_picture(path)

    @Slot(object)
    def read_picture(self, source: Pasted) -> None:
        """Reads a puzzle from a picture with Safelight Sight. The loaded model stays, as does the puzzle until then."""
        one, reason = self.page.one, self._reason()
        if reason:
            one.refuse(reason)
            return
        self.page.show_part("one")
        one.begin_reading()
        self.reader.read(source)

    @Slot(str)
    def _adapt(self, path_or_id: str) -> None:
        model = self._context.model
        if model is not None and not self._reason() and (path_or_id or None) != model.adapter:
            self.queue.add([PuzzleJob(Contender(model.path_or_id, path_or_id or None))])

    @Slot()
    def _ask_adapter(self) -> None:
        folder = self._ask_folder()
        if folder:
            self._adapt(folder)
        self._fill()

    def _ask_contender(self, side: BoardSide) -> None:
        folder = self._ask_folder()
        if folder and side.contender is not None:
            self._fill()
            side.choose(Contender(side.contender.model, folder))

    def _ask_folder(self) -> str:
        folder = QFileDialog.getExistingDirectory(self.page.window(), tr("Open an adapter's folder"))
        if folder and folder not in self._folders:
            self._folders.append(folder)
        return folder

    def _fill(self) -> None:
        """Fills the choosers of contenders and adapters."""
        model = self._context.model
        others = [path for path, _ in self._context.models]
        if model is not None and not obstacle(model):
            others.append(model.path_or_id)
        self.page.side_by_side.offer(contenders(others, self._folders))
        fitting = () if model is None else adapters_for(model.path_or_id)
        offered = [(path, title_of_adapter(path)) for path in (*fitting, *self._folders)]
        self.page.one.column.show_adapters(offered, "" if model is None else model.adapter or "")

    def _reason(self) -> str:
        """Returns why nothing can be run now; empty if something can. A missing model is no reason: one is offered."""
        reason = self._context.reason_to_wait()
        return "" if reason and self._context.model is None and self._context.loading is None else reason

    def _offer(self) -> bool:
        """Returns True if a model has to be loaded first."""
        model = self._context.model
        return model is None or bool(obstacle(model))

    @Slot()
    def refresh(self) -> None:
        """Updates messages, choosers and buttons after a change of model, puzzle or running job."""
        model, page, one = self._context.model, self.page, self.page.one
        known = (model, tuple(self._context.models), tuple(self._folders))
        if known != self._offered:
            self._offered = known
            self._fill()
        busy, reason, check = self.is_busy, self._reason(), one.check_shown
        waits = self._preparing() if busy else reason
        offer = not busy and not reason and self._offer()
        if offer and model is not None:
            waits = obstacle(model)
        skips = self.queue.skips
        one.column.show_solving(busy, waits, can_run=not busy and not reason and check.runs, offer=offer, skips=skips)
        page.side_by_side.show_puzzle(one.puzzle, waits or check.text)
        page.side_by_side.show_solving(busy, waits, can_run=not reason and check.runs, skips=skips)
        page.scores.set_busy("" if self.batch.is_on else reason)
        takes = model is not None and model.capabilities.adapters
        one.column.allow_adapters(
            takes and not busy and not reason, why="" if takes or model is None else unadapted(model)
        )

    def _preparing(self) -> str:
        """Returns what a run waits for; empty once it is running."""
        if self.reader.is_busy:
            return self.reader.progress
        if self.queue.is_running or not self.queue.is_busy:
            return ""
        loading = self._context.loading
        return loading.text if loading is not None else tr("Changing the adapter")

    @Slot(object)
    def take(self, replies: list[ServiceReply]) -> None:
        """Passes replies of the engine on. After a change of adapter the chooser shows the one in use."""
        for reply in replies:
            self.queue.take(reply)
            self.reader.take(reply)
            if isinstance(reply, AdapterChanged):
                self._fill()

    def _inspect(self, run: RunBoard, _checked: bool = False) -> None:
        if run.trace is not None and not run.is_live:
            self._context.inspect(run.trace)

    def toggle_clamp(self) -> None:
        """Turns the clamping of givens on or off."""
        self.show("one")
        self.page.one.column.clamp.toggle()

    def show(self, part: str) -> None:
        """Opens the page at a part, by its name."""
        self._context.show_page(SUDOKU)
        self.page.show_part(part)


def build(context: AppContext) -> SudokuController:
    return SudokuController(context)

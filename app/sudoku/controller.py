"""Connects the Sudoku page to the engine: solving, reading pictures, adapters, and a race on the puzzle."""

from __future__ import annotations

from PySide6.QtCore import QDir, QObject, Slot
from PySide6.QtWidgets import QFileDialog

from app.context import SUDOKU, AppContext
from app.pictures.files import Pasted
from app.session.session import title_of
from app.settings.values import later_seed
from app.state.adapters import adapters_for, title_of_adapter
from app.sudoku.page import SudokuPage
from app.sudoku.picture_reader import PictureReader
from app.sudoku.puzzle_runner import PuzzleJob, PuzzleRunner
from app.sudoku.solving import obstacle, race_models, solver, unadapted
from app.system.i18n import tr
from engine.catalog import SMALL
from engine.service import AdapterChanged, ServiceReply
from engine.tasks import sudoku


class SudokuController(QObject):
    """The controller of the Sudoku page. It runs or reads one puzzle at a time."""

    notice = None  # errors go through ``context.say``

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.widget = self.page = page = SudokuPage()
        self.setParent(page)  # so that no signal arrives after the page is deleted
        self.runner = PuzzleRunner(context, self)
        self.reader = PictureReader(context, self)
        self._seed = 0  # of the latest run
        self._folders: list[str] = []  # adapters that the user has opened
        self._offered: object = None  # the models and adapters that the chooser was filled from
        column = page.column
        column.solve.clicked.connect(self.solve)
        column.race.clicked.connect(self.race)
        column.load.clicked.connect(lambda: context.load(SMALL))
        column.again.clicked.connect(self._try_again)
        column.stop.clicked.connect(self.stop)
        column.adapter_chosen.connect(self._adapt)
        column.adapter_folder_asked.connect(self._ask_adapter)
        column.inspect.clicked.connect(self._inspect)
        column.picture.clicked.connect(self.ask_picture)
        page.board.pictured.connect(self.read_picture)
        page.changed.connect(self.refresh)
        page.scrub.pace_chosen.connect(context.choose_pace)
        self.reader.opened.connect(page.show_picture)
        self.reader.advanced.connect(page.show_reading)
        self.reader.ended.connect(page.end_reading)
        self.reader.changed.connect(context.busy_changed)
        self.runner.began.connect(page.run.began)
        self.runner.grew.connect(page.run.grew)
        self.runner.ended.connect(page.run.ended)
        self.runner.changed.connect(context.busy_changed)
        context.register_busy(self)
        context.arrived.connect(self.take)
        context.busy_changed.connect(self.refresh)
        context.models_changed.connect(self.refresh)
        context.settings_changed.connect(self._show_pace)
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
        """True while a puzzle is being solved or read, or an adapter set."""
        return self.runner.is_busy or self.reader.is_busy

    def reason_to_wait(self) -> str:
        """A sentence that says that a puzzle is being solved or read; empty if none is."""
        if self.reader.is_busy:
            return tr("A puzzle is being read from a picture; Esc stops it")
        if self.runner.skips:
            return tr("A puzzle is still being shown; Esc skips to its end")
        return tr("A puzzle is being solved; Esc stops it") if self.is_busy else ""

    @Slot()
    def solve(self) -> None:
        """Solves the puzzle with the loaded model."""
        self._solve(self._context.values.next_seed())

    @Slot()
    def _try_again(self) -> None:
        self._solve(later_seed(self._seed, 1))

    def _solve(self, seed: int) -> None:
        page, model = self.page, solver(self._context.model)
        if self._reason() or model is None or not page.check.runs:
            return
        self._seed = seed
        facts = tr("{model}, seed {seed}", model=title_of(model), seed=seed)
        page.expect(tr("{facts}, given digits kept", facts=facts) if page.keeps_givens else facts)
        self.runner.begin(PuzzleJob(page.puzzle.cells, seed, page.keeps_givens))

    @Slot()
    def race(self) -> None:
        """Opens the Race page, where two models solve the puzzle."""
        if not self._waits() and self.page.check.runs:
            self._context.race(sudoku.to_prompt(self.page.puzzle.cells), race_models())

    @Slot()
    def stop(self) -> None:
        """Stops within one denoising step."""
        self.reader.stop()
        self.runner.stop()

    @Slot()
    def ask_picture(self) -> None:
        """Lets the user choose a picture, and reads the puzzle in it."""
        path, _ = QFileDialog.getOpenFileName(self.page.window(), tr("Open a picture of a Sudoku"), QDir.homePath())
        if path:
            self.read_picture(path)

    @Slot(object)
    def read_picture(self, source: Pasted) -> None:
        """Reads a puzzle from a picture with Safelight Sight. The loaded model stays, as does the puzzle until then."""
        reason = self._waits()
        if reason:
            self.page.refuse(reason)
            return
        self.page.begin_reading()
        self.reader.read(source)

    @Slot(str)
    def _adapt(self, path_or_id: str) -> None:
        model = self._context.model
        if model is not None and not self._waits() and (path_or_id or None) != model.adapter:
            self.runner.begin(PuzzleJob(adapter=path_or_id or None))

    @Slot()
    def _ask_adapter(self) -> None:
        folder = QFileDialog.getExistingDirectory(self.page.window(), tr("Open an adapter's folder"), QDir.homePath())
        if folder and folder not in self._folders:
            self._folders.append(folder)
        if folder:
            self._adapt(folder)
        self._fill()

    def _fill(self) -> None:
        """Fills the chooser of adapters."""
        model = self._context.model
        fitting = () if model is None else adapters_for(model.path_or_id)
        offered = [(path, title_of_adapter(path)) for path in (*fitting, *self._folders)]
        self.page.column.show_adapters(offered, "" if model is None else model.adapter or "")

    def _waits(self) -> str:
        """Returns what has to end or be loaded first; empty for nothing. To read a picture needs no model."""
        reason = self._context.reason_to_wait()
        return "" if reason and self._context.model is None and self._context.loading is None else reason

    def _reason(self) -> str:
        """Returns why no puzzle can be solved now; empty if one can."""
        model = solver(self._context.model)
        return self._context.reason_to_wait() or ("" if model is None else obstacle(model))

    @Slot()
    def refresh(self) -> None:
        """Updates messages, chooser and buttons after a change of model, puzzle or running job."""
        model, column = self._context.model, self.page.column
        known = (model, tuple(self._folders))
        if known != self._offered:
            self._offered = known
            self._fill()
        busy, reason, check = self.is_busy, self._reason(), self.page.check_shown
        waits = self._preparing() if busy else reason
        can_run = not busy and not reason and check.runs
        column.show_solving(busy, waits, can_run=can_run, skips=self.runner.skips)
        column.race.setEnabled(not busy and not self._waits() and check.runs)
        column.load.setVisible(bool(reason) and not self._waits())  # another model is missing, and nothing else
        takes = model is not None and model.capabilities.adapters
        why = "" if takes or model is None else unadapted(model)
        column.allow_adapters(takes and not busy and not self._waits(), why=why)

    def _preparing(self) -> str:
        """Returns what a run waits for; empty once it is running."""
        if self.reader.is_busy:
            return self.reader.progress
        return "" if self.runner.is_running else tr("Changing the adapter")

    @Slot(object)
    def take(self, replies: list[ServiceReply]) -> None:
        """Passes replies of the engine on. After a change of adapter the chooser shows the one in use."""
        for reply in replies:
            self.runner.take(reply)
            self.reader.take(reply)
            if isinstance(reply, AdapterChanged):
                self._fill()

    @Slot()
    def _inspect(self) -> None:
        run = self.page.run
        if run.trace is not None and not run.is_live:
            self._context.inspect(run.trace)

    def toggle_keep(self) -> None:
        """Turns keeping the given digits on or off."""
        self.show()
        self.page.column.keep.toggle()

    def show(self) -> None:
        """Opens the page."""
        self._context.show_page(SUDOKU)


def build(context: AppContext) -> SudokuController:
    return SudokuController(context)

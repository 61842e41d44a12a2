"""Connects the Sudoku page to the engine: solving, reading pictures, adapters, and a race on the puzzle."""

from __future__ import annotations

from PySide6.QtCore import QDir, QObject, Signal, Slot
from PySide6.QtWidgets import QFileDialog

from app.bridge.background import Background
from app.bridge.engine_thread import Handle, RunHandle
from app.bridge.remote_access import only_text
from app.context import SUDOKU, AppContext
from app.pictures.bar import Pasted, read_picture
from app.session.model_slot import ModelChoice
from app.session.turn_request import title_of
from app.settings.values import later_seed
from app.state.adapters import adapters_for, title_of_adapter
from app.state.chat.attachment import AttachedPicture
from app.sudoku.page import SudokuPage
from app.system import logs
from app.system.crash_handler import one_line
from app.system.i18n import tr
from engine import BASE, GenerationConfig, SafelightError
from engine import SUDOKU as SOLVER
from engine.catalog import SMALL
from engine.decoders import BLOCK_DIFFUSION
from engine.pictures import Picture
from engine.service import BoardAdvanced, BoardEnded, BoardRequest, LoadedModel, PuzzleRun, ServiceReply, is_remote
from engine.tasks import sudoku
from engine.tasks.sudoku_pictures import ReadBoard

ANSWER_TOKENS = 90  # 81 digits, the line breaks between nine lines, and the end
TOP_K = 10  # candidates for each position, so that all nine digits can have a pencil mark
LINE = 10  # tokens of a line of the answer, with its line break


def race_models() -> tuple[ModelChoice, ModelChoice]:
    """Returns two models to compare on a puzzle: the base model without and with its adapter, or else the solver."""
    adapter = next(iter(adapters_for(BASE)), None)
    return ModelChoice(BASE), ModelChoice(SOLVER) if adapter is None else ModelChoice(BASE, adapter)


def solver(model: LoadedModel | None) -> LoadedModel | None:
    """Returns what solves puzzles while a model is loaded: the part that was made for them, or the model itself."""
    return None if model is None else model.part(SOLVER)


def obstacle(model: LoadedModel) -> str:
    """Returns why a model cannot solve puzzles, as a sentence; empty if it can."""
    if not model.capabilities.steps:
        return only_text(model) or tr(
            "{model} has no denoising steps, which the board shows. Load another model.", model=model.title
        )
    if model.canvas_length < ANSWER_TOKENS:
        return tr(
            "{model} cannot write a board: its canvas holds {length} tokens, and a board takes {needed}.",
            model=model.title,
            length=model.canvas_length,
            needed=ANSWER_TOKENS,
        )
    return ""


def unadapted(model: LoadedModel) -> str:
    """Returns why a model takes no adapter, for a backend without adapters."""
    if is_remote(model.path_or_id):
        return tr("The server that runs this model chooses its adapter.")
    return tr("{model} takes no adapter.", model=model.title)


def settings(model: LoadedModel, config: GenerationConfig, puzzle: str, *, keep: bool) -> GenerationConfig:
    """Returns a run's settings: enough candidates for pencil marks and, with ``keep``, pinned given digits.

    Raises:
        SafelightError: The model does not write one token for each character, so that no digit can be kept.
    """
    config = config.replace(top_k=max(config.top_k, TOP_K))
    if not keep:
        return config
    diffusing = BLOCK_DIFFUSION if BLOCK_DIFFUSION in model.decoders else config.decoder  # only this one keeps pins
    return config.replace(pinned=pins(model, puzzle), decoder=diffusing, token_thoughts=False)


def pins(model: LoadedModel, puzzle: str) -> tuple[tuple[int, int], ...]:
    """Returns (position in the answer, token) of every given digit.

    Raises:
        SafelightError: As ``settings``.
    """
    tokens = model.encode(sudoku.rows(puzzle))
    if len(tokens) != ANSWER_TOKENS - 1:
        raise SafelightError(
            tr(
                "{model} does not write one token for each digit, so it cannot keep the given ones.",
                model=model.title,
            )
        )
    places = (cell // 9 * LINE + cell % 9 for cell in range(sudoku.SIZE) if puzzle[cell] != "0")
    return tuple((place, tokens[place]) for place in places)


class PictureReader(QObject):
    """Reads one picture at a time."""

    opened = Signal(object, object)  # the AttachedPicture, and its Picture
    advanced = Signal(object)  # ReadBoard of the rows so far
    ended = Signal(object, str)  # the ReadBoard or None, and why reading failed
    changed = Signal()  # ``progress`` has changed

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._handle: Handle | None = None
        self.progress = ""  # the current activity as a sentence; empty if there is none
        self._opening = Background(self, self._opened)
        self._opening.failed.connect(self._not_opened)

    @property
    def is_busy(self) -> bool:
        return bool(self.progress)

    def read(self, source: Pasted) -> None:
        """Starts reading a picture; only while none is being read."""
        self._opening.ask(lambda: read_picture(source))
        self._set_progress(tr("Opening the picture"))

    @Slot()
    def stop(self) -> None:
        """Stops within one denoising step."""
        if self._handle is not None:
            self._handle.stop()
        elif self.is_busy:
            self._opening.drop()
            self._end(None)

    @Slot(object)
    def _opened(self, named_picture: tuple[str, Picture]) -> None:
        name, picture = named_picture
        self.opened.emit(AttachedPicture(name, picture.digest, picture.width, picture.height), picture)
        self._handle = self._context.backend.read_board(BoardRequest(picture, self._context.preferences.threads))
        self._handle.replied.connect(self._show_replies)
        self._set_progress(tr("Loading Safelight Sight as well"))

    @Slot(object)
    def _not_opened(self, error: Exception) -> None:
        self._end(None, one_line(error))
        if not isinstance(error, SafelightError):
            logs.record(error, "in reading a picture")

    @Slot(object)
    def _show_replies(self, replies: list[ServiceReply]) -> None:
        for reply in replies:
            match reply:
                case BoardAdvanced(_, rows):
                    self.advanced.emit(ReadBoard.from_rows(rows))
                    if len(rows) < 9:
                        self._set_progress(tr("Reading row {row} of 9", row=len(rows) + 1))
                case BoardEnded(_, board, message, details):
                    problem = tr(message) if message else ""
                    if details:
                        self._context.say(problem, details)
                    self._end(board, problem)

    def _set_progress(self, progress: str) -> None:
        self.progress = progress
        self.changed.emit()

    def _end(self, board: ReadBoard | None, problem: str = "") -> None:
        self._handle = None
        self.ended.emit(board, problem)
        self._set_progress("")


class SudokuController(QObject):
    """The controller of the Sudoku page. It runs or reads one puzzle at a time."""

    notice = None  # errors go through ``context.say``

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.widget = self.page = page = SudokuPage()
        self.setParent(page)  # so that no signal arrives after the page is deleted
        self._run: RunHandle | None = None  # that solves a puzzle
        self._adapting: Handle | None = None
        self.reader = PictureReader(context, self)
        self._seed = 0  # of the latest run
        self._folders: list[str] = []  # adapters that the user has opened
        self._offered: object = None  # the models and adapters that the chooser was filled from
        column = page.column
        column.solve.clicked.connect(self.solve)
        column.race.clicked.connect(self.race)
        column.load.clicked.connect(lambda: context.load(SMALL))
        column.again.clicked.connect(lambda: self._solve(later_seed(self._seed, 1)))
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
        context.register_busy(self)
        context.busy_changed.connect(self.refresh)
        context.slot.models_changed.connect(self.refresh)
        context.settings_changed.connect(self._show_pace)
        self._show_pace()
        self.refresh()

    def enter(self) -> None:
        self.page.setFocus()

    @Slot()
    def _show_pace(self) -> None:
        self.page.scrub.set_pace(self._context.values.pace)

    @property
    def is_busy(self) -> bool:
        """True while a puzzle is being solved or read, or an adapter set."""
        return self._run is not None or self._adapting is not None or self.reader.is_busy

    def reason_to_wait(self) -> str:
        """A sentence that says that a puzzle is being solved or read; empty if none is."""
        if self.reader.is_busy:
            return tr("A puzzle is being read from a picture; Esc stops it")
        if self._skips:
            return tr("A puzzle is still being shown; Esc skips to its end")
        return tr("A puzzle is being solved; Esc stops it") if self.is_busy else ""

    @property
    def _skips(self) -> bool:
        """True if ``stop`` only skips to the end of a run that is computed but not fully shown."""
        return self._run is not None and self._run.is_computed

    @Slot()
    def solve(self) -> None:
        """Solves the puzzle with the loaded model."""
        self._solve(self._context.values.next_seed())

    def _solve(self, seed: int) -> None:
        page, model = self.page, solver(self._context.model)
        if self._reason() or model is None or not page.check.runs:
            return
        self._seed = seed
        facts = tr("{model}, seed {seed}", model=title_of(model), seed=seed)
        page.expect(tr("{facts}, given digits kept", facts=facts) if page.keeps_givens else facts)
        config, puzzle = self._context.values.config(model.defaults, model.decoders), page.puzzle.cells
        try:
            config = settings(model, config, puzzle, keep=page.keeps_givens)
        except SafelightError as error:
            self._ended(str(error))
            return
        messages = ({"role": "user", "content": sudoku.to_prompt(puzzle)},)
        self._run = self._context.backend.run(PuzzleRun(config, seed, messages))
        page.run.follow(self._run)
        self._run.ended.connect(self._ended)
        self._context.busy_changed.emit()

    @Slot(str, str)
    def _ended(self, problem: str, details: str = "") -> None:
        if problem:
            self._context.say(problem, details)
        self._run = None
        self.page.run.end(problem)
        self._context.busy_changed.emit()

    @Slot()
    def race(self) -> None:
        """Opens the Race page, where two models solve the puzzle."""
        if not self._waits() and self.page.check.runs:
            self._context.navigator.start_race(sudoku.to_prompt(self.page.puzzle.cells), race_models())

    @Slot()
    def stop(self) -> None:
        """Stops within one denoising step."""
        self.reader.stop()
        if self._run is not None:
            self._run.stop()
        self._adapted()  # the adapter is set all the same

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
            self._adapting = self._context.slot.set_adapter(path_or_id or None)
            self._adapting.replied.connect(self._adapted)
            self._context.busy_changed.emit()

    @Slot()
    def _adapted(self) -> None:
        """Shows the adapter that is in use; where another could not be set, the context has said why."""
        if self._adapting is not None:
            self._adapting.replied.disconnect(self._adapted)
            self._adapting = None
            self._context.busy_changed.emit()
            self._fill()

    @Slot()
    def _ask_adapter(self) -> None:
        folder = QFileDialog.getExistingDirectory(self.page.window(), tr("Open an adapter's folder"), QDir.homePath())
        if folder and folder not in self._folders:
            self._folders.append(folder)
        if folder:
            self._adapt(folder)
        self._fill()

    @Slot()
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
        adapting = "" if self._run is not None else tr("Changing the adapter")
        waits = (self.reader.progress or adapting) if busy else reason
        can_run = not busy and not reason and check.runs
        column.show_solving(busy, waits, can_run=can_run, skips=self._skips)
        column.race.setEnabled(not busy and not self._waits() and check.runs)
        column.load.setVisible(bool(reason) and not self._waits())  # another model is missing, and nothing else
        takes = model is not None and model.capabilities.adapters
        why = "" if takes or model is None else unadapted(model)
        column.allow_adapters(takes and not busy and not self._waits(), why=why)

    @Slot()
    def _inspect(self) -> None:
        run = self.page.run
        if run.trace is not None and not run.is_live:
            self._context.navigator.inspect(run.trace)

    def show(self) -> None:
        self._context.navigator.show_page(SUDOKU)


build = SudokuController

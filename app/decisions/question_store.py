"""Stores the questions: between two starts of the app in the data folder, and in files that the user chooses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths, Signal, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.context import AppContext
from app.decisions.one.questions import QuestionList
from app.state.decisions.sheet import QuestionSheet, file_of, sheet_of
from app.system.folders import ensure
from app.system.i18n import tr
from app.system.timers import later
from engine import SafelightError
from engine.files import read_json, write_json
from engine.tasks.decisions.question_file import read_question_file, write_question_file

NAME = "questions.json"
FILE_BYTES = 32 * 2**20  # far more than usual questions and the longest text, 100 000 characters, take
STATE = "state"


def read_sheet(folder: Path) -> tuple[QuestionSheet, str] | None:
    """Returns the stored questions and text; None if the file is missing or cannot be read."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        raw = read_json(path, most=FILE_BYTES)
    except SafelightError:
        return None
    sheet = QuestionSheet.from_json(raw)
    state = raw.get(STATE) if isinstance(raw, dict) else None
    return None if sheet is None else (sheet, state if isinstance(state, str) else "")


def write_sheet(folder: Path, sheet: QuestionSheet, state: str) -> None:
    """Replaces the stored questions and text.

    Raises:
        SafelightError: The folder or the file cannot be written.
    """
    write_json(ensure(folder) / NAME, {**sheet.to_json(), STATE: state})


SAVE_MS = 500  # after the last change
JSON = "JSON (*.json)"


class QuestionStore(QObject):
    """Reads and writes the questions of ``questions`` and the text that ``state`` returns."""

    opened = Signal(object, str)  # a QuestionSheet, and the file's state or an empty text

    def __init__(
        self, context: AppContext, questions: QuestionList, state: Callable[[], str], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._context, self._questions, self._state = context, questions, state
        self._folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        self._is_written = True
        self._saving = later(self, self.remember, SAVE_MS)
        questions.open.clicked.connect(self._ask_file)
        questions.save.clicked.connect(self._ask_target)
        context.at_end(self.remember)

    def recall(self) -> tuple[QuestionSheet, str] | None:
        """Returns the stored questions and text; None if there are none."""
        return read_sheet(self._context.folders.data)

    @Slot()
    def note_change(self) -> None:
        """Schedules writing, ``SAVE_MS`` after the last change."""
        self._is_written = False
        self._saving.start()

    @Slot()
    def remember(self) -> None:
        """Writes the questions to disk, if they have changed."""
        self._saving.stop()
        if self._is_written:
            return
        self._is_written = True
        try:
            write_sheet(self._context.folders.data, self._questions.sheet, self._state())
        except SafelightError as error:
            self._context.say(tr(str(error)))

    def _window(self) -> QWidget:
        return self._questions.window()

    @Slot()
    def _ask_file(self) -> None:
        found = QFileDialog.getOpenFileName(self._window(), tr("Open questions"), self._folder, JSON)[0]
        if found:
            self.open(Path(found))

    def open(self, path: Path) -> None:
        """Reads a file, and emits ``opened`` with its questions and its state; an error is shown."""
        try:
            file = read_question_file(path)
        except SafelightError as error:
            self._context.say(tr(str(error)))
            return
        self._folder = str(path.parent)
        self.opened.emit(sheet_of(file), file.state)

    @Slot()
    def _ask_target(self) -> None:
        problems = self._questions.sheet.problems
        self._questions.show_problems(problems)
        if problems:
            return
        name = str(Path(self._folder) / "questions.json")
        found = QFileDialog.getSaveFileName(self._window(), tr("Save the questions"), name, JSON)[0]
        if found:
            self.save(Path(found))

    def save(self, path: Path) -> None:
        """Writes the questions and their settings as a file, which ``safelight decide`` reads as well."""
        try:
            write_question_file(path, file_of(self._questions.sheet))
        except SafelightError as error:
            self._context.say(tr(str(error)))
            return
        self._folder = str(path.parent)
        self._context.confirm_export(str(path))

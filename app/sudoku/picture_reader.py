"""Reads a puzzle from a picture: opens the file in a thread, and lets the engine read its rows. Has no widgets."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background
from app.context import AppContext
from app.pictures.files import Pasted, read_picture
from app.state.chat.attachment import AttachedPicture
from app.system import logs
from app.system.crash_handler import one_line
from app.system.i18n import tr
from engine import SafelightError
from engine.pictures import Picture
from engine.service import BoardAdvanced, BoardEnded, BoardRequest, ServiceReply
from engine.tasks.sudoku_pictures import ReadBoard


class PictureReader(QObject):
    """Reads one picture at a time. ``take`` must be called with every reply of the engine."""

    opened = Signal(object, object)  # the AttachedPicture, and its Picture
    advanced = Signal(object)  # ReadBoard of the rows so far
    ended = Signal(object, str)  # the ReadBoard or None, and why reading failed
    changed = Signal()  # ``progress`` has changed

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._request: BoardRequest | None = None
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
        if self._request is not None:
            self._context.backend.scheduler.stop(self._request)
        elif self.is_busy:
            self._opening.drop()
            self._end(None)

    @Slot(object)
    def _opened(self, found: tuple[str, Picture]) -> None:
        name, picture = found
        self.opened.emit(AttachedPicture(name, picture.digest, picture.width, picture.height), picture)
        self._request = BoardRequest(picture, self._context.preferences.threads)
        self._context.backend.read_board(self._request)
        self._set_progress(tr("Loading Safelight Sight as well"))

    @Slot(object)
    def _not_opened(self, error: Exception) -> None:
        self._end(None, one_line(error))
        if not isinstance(error, SafelightError):
            logs.record(error, "in reading a picture")

    def take(self, reply: ServiceReply) -> None:
        """Processes replies of the engine and ignores those about other pictures."""
        asked = self._request
        match reply:
            case BoardAdvanced(board_id, rows) if asked is not None and asked.board_id == board_id:
                self.advanced.emit(ReadBoard.from_rows(rows))
                if len(rows) < 9:
                    self._set_progress(tr("Reading row {row} of 9", row=len(rows) + 1))
            case BoardEnded(board_id, board, message, details) if asked is not None and asked.board_id == board_id:
                problem = tr(message) if message else ""
                if details:
                    self._context.say(problem, details)
                self._end(board, problem)

    def _set_progress(self, progress: str) -> None:
        self.progress = progress
        self.changed.emit()

    def _end(self, board: ReadBoard | None, problem: str = "") -> None:
        self._request = None
        self.ended.emit(board, problem)
        self._set_progress("")

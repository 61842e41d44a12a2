"""Reads the run of an answer for its replay, in a thread, since a long run would block the window."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Slot

import engine
from app.bridge.background import Background
from app.chat.page import ChatPage
from app.chat.reading import read_run
from app.context import AppContext
from app.state.chat.calls import ToolRound
from app.state.chat.conversation import Answer, Turn
from app.state.run.replay import Replay
from app.system import logs
from app.system.crash_handler import one_line
from app.system.i18n import tr
from engine import Recording, SafelightError
from engine.files import is_bare_name


def run_of(answer: Answer | ToolRound, folder: Path) -> Recording | Path | None:
    """Returns the run of an answer, or of a round of its calls, in memory or as its file; None if it is not kept."""
    if answer.trace is not None:
        return answer.trace
    path = folder / f"{answer.trace_id}{engine.TRACE_SUFFIX}"
    return path if is_bare_name(answer.trace_id) and path.is_file() else None


def not_kept() -> str:
    return tr("The run of this answer was not kept, or was deleted.")


class Replaying(QObject):
    """Reads one run at a time; a new request replaces the one before."""

    def __init__(self, context: AppContext, page: ChatPage) -> None:
        super().__init__(page)
        self._context, self._page = context, page
        self._wanted: tuple[Turn, Answer] | None = None
        self._reader = Background(self, self._read)
        self._reader.failed.connect(self._failed)

    def read(self, turn: Turn) -> None:
        self._page.forget_other_replays(turn)
        self._wanted = turn, turn.answer
        run = run_of(turn.answer, self._context.folders.traces)
        if run is None:
            self._failed(SafelightError(not_kept()))
        else:
            self._reader.ask(lambda: read_run(run))

    @Slot(object)
    def _read(self, found: tuple[Replay, Recording]) -> None:
        if self._wanted is not None:
            replay = self._page.replay_of(*self._wanted)
            if replay is not None:
                replay.open(*found)

    @Slot(object)
    def _failed(self, error: Exception) -> None:
        if self._wanted is not None:
            replay = self._page.replay_of(*self._wanted)
            if replay is not None:
                replay.refuse(one_line(error))
        if not isinstance(error, SafelightError):
            logs.record(error, "in reading a run")

"""Parts of the start that may fail alone, and reopening the conversation that was last on show."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Slot

from app.context import AppContext
from app.settings import store
from app.system import logs
from app.system.crash_handler import one_line
from app.system.i18n import tr

REOPENING_MS = 3000  # after which a reopened conversation counts as harmless


def attempt(context: AppContext, problem: str, part: Callable[[], object]) -> None:
    """Run a part of the start. Any failure in it is reported, and the start continues."""
    try:
        part()
    except Exception as error:
        logs.record(error, "at the start")
        context.say(f"{problem}. {one_line(error)}", "".join(traceback.format_exception(error)))


class Reopening(QObject):
    """Stores which conversation is on show, and reopens it at the next start unless that crashed the app."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context, self._settings = context, context.settings
        context.session.listed.connect(self._note)
        context.session.path_changed.connect(self._note)

    @Slot()
    def reopen(self) -> None:
        """Reopen the conversation that was on show when the app last ended, however it ended."""
        attempt(self._context, tr("The last conversation could not be shown"), self._reopen)

    def _reopen(self) -> None:
        session, last = self._context.session, store.read_conversation(self._settings)
        if last is None or all(found.id != last for found in session.library.summaries()):
            return
        if store.read_reopening(self._settings) == last:
            self._context.say(
                tr("The last conversation is not shown, since Safelight ended while opening it. It is in the list.")
            )
            self.done()
            return
        store.write_reopening(self._settings, last)
        QTimer.singleShot(REOPENING_MS, self, self.done)
        session.open(last)

    @Slot()
    def done(self) -> None:
        """The reopened conversation did no harm."""
        store.write_reopening(self._settings, None)

    @Slot()
    def _note(self) -> None:
        store.write_conversation(self._settings, self._context.session.conversation)

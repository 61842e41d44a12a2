"""What of the start may fail without the rest, and the conversation that was on show when the app ended last."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Slot

from app.context import AppContext
from app.settings import store
from app.system import logs
from app.system.crash_handler import one_line
from app.system.i18n import tr

REOPENING_MS = 3000  # after which a conversation shown again counts as harmless


def attempt(context: AppContext, problem: str, part: Callable[[], object]) -> None:
    """Do a part of the start. Where it fails, whatever the reason, it costs only that part and is said."""
    try:
        part()
    except Exception as error:
        logs.record(error, "at the start")
        context.say(f"{problem}. {one_line(error)}", "".join(traceback.format_exception(error)))


class Reopening(QObject):
    """Notes which conversation is on show, and shows it again unless that ended the app."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context, self._settings = context, context.settings
        context.session.listed.connect(self._note)
        context.session.path_changed.connect(self._note)

    @Slot()
    def reopen(self) -> None:
        """Show the conversation that was on show when the app ended last, whichever way it ended."""
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
        """The conversation shown again has harmed nobody."""
        store.write_reopening(self._settings, None)

    @Slot()
    def _note(self) -> None:
        store.write_conversation(self._settings, self._context.session.conversation)

"""Parts of the start that may fail alone; the conversation and the model that there were last."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Slot

from app.context import AppContext, ModelChoice
from app.settings import store
from app.system import logs
from app.system.crash_handler import one_line
from app.system.i18n import tr
from engine import SKILLS
from engine.catalog import is_embedded

REOPENING_MS = 3000  # after which a reopened conversation counts as harmless


def attempt(context: AppContext, problem: str, part: Callable[[], object]) -> None:
    """Run a part of the start. Any failure in it is reported, and the start continues."""
    try:
        part()
    except Exception as error:
        logs.record(error, "at the start")
        context.say(f"{problem}. {one_line(error)}", "".join(traceback.format_exception(error)))


class Reopening(QObject):
    """Stores which conversation and model there are, and brings them back at the next start unless that crashed it."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context, self._settings = context, context.settings
        self._first = ModelChoice(SKILLS)
        self._noted: ModelChoice | None = None
        context.session.listed.connect(self._note)
        context.session.path_changed.connect(self._note)
        context.busy_changed.connect(self._note_model)

    # ---------------------------------------------------------------- the model

    def expect_model(self, model: str | None = None) -> None:
        """Announce the model of the start: this one, or else the one that was loaded last."""
        self._first = self._last_model() if model is None else ModelChoice(model)
        self._context.expect(self._first.path_or_id)

    @Slot()
    def load_model(self) -> None:
        """Load the model of the start; the skills model if that fails."""
        first = self._first
        if not is_embedded(first.path_or_id):
            store.write_loading(self._settings, first.path_or_id)
        otherwise = None if first.path_or_id == SKILLS else ModelChoice(SKILLS)
        self._context.load(first.path_or_id, first.adapter, otherwise)

    def _last_model(self) -> ModelChoice:
        last = store.read_model(self._settings)
        if last is None:
            return ModelChoice(SKILLS)
        if store.read_loading(self._settings) != last[0]:
            return ModelChoice(*last)
        store.write_loading(self._settings, None)
        self._context.say(
            tr(
                "{model} is not loaded, since Safelight ended while loading it. Choose it above to try it again.",
                model=self._context.title_of(last[0]),
            )
        )
        return ModelChoice(SKILLS)

    @Slot()
    def _note_model(self) -> None:
        choice = self._context.own_choice
        if self._context.choice is None or choice is None or choice == self._noted:
            return
        self._noted = choice
        store.write_model(self._settings, choice.path_or_id, choice.adapter)
        if store.read_loading(self._settings):
            store.write_loading(self._settings, None)

    # ---------------------------------------------------------------- the conversation

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

    def close(self) -> None:
        """The app ends in order: what was being reopened is not at fault."""
        self.done()
        if store.read_loading(self._settings):
            store.write_loading(self._settings, None)

    @Slot()
    def _note(self) -> None:
        store.write_conversation(self._settings, self._context.session.conversation)

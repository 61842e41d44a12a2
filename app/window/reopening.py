"""Steps of the start that may fail alone; reopens the last conversation and model."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Slot

from app.context import AppContext
from app.session.model_slot import ModelChoice
from app.settings import store
from app.system import logs
from app.system.crash_handler import one_line
from app.system.i18n import tr
from engine import catalog

REOPENING_MS = 3000  # after this time a reopened conversation counts as harmless


def attempt(context: AppContext, problem: str, part: Callable[[], object]) -> None:
    """Runs a step of the start. Any failure in it is reported, and the start continues."""
    try:
        part()
    except Exception as error:
        logs.record(error, "at the start")
        context.say(f"{problem}. {one_line(error)}", "".join(traceback.format_exception(error)))


class Reopening(QObject):
    """Stores the current conversation and model and reopens them at the next start, unless that crashed the app."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context, self._settings = context, context.settings
        self._first = ModelChoice(catalog.SMALL)
        self._noted: ModelChoice | None = None
        context.session.listed.connect(self._note)
        context.session.path_changed.connect(self._note)
        context.busy_changed.connect(self._note_model)

    def expect_model(self, model: str | None = None) -> None:
        """Announces the model of the start: this one, or else the preferred or last loaded one."""
        self._first = self._last_model() if model is None else ModelChoice(model)
        self._context.slot.expect(self._first.path_or_id)

    @Slot()
    def load_model(self) -> None:
        """Loads the model of the start."""
        first = self._first
        if not catalog.title(first.path_or_id):
            store.write_loading(self._settings, first.path_or_id)
        self._context.load(first.path_or_id, first.adapter)

    def _last_model(self) -> ModelChoice:
        last = store.read_model(self._settings)
        if last is None:
            return ModelChoice(catalog.SMALL)
        if store.read_loading(self._settings) != last[0]:
            return ModelChoice(catalog.present(last[0]), last[1])
        store.write_loading(self._settings, None)
        self._context.say(
            tr(
                "{model} is not loaded, since Safelight closed while loading it. To try again, choose it above.",
                model=self._context.slot.title_of(last[0]),
            )
        )
        return ModelChoice(catalog.SMALL)

    @Slot()
    def _note_model(self) -> None:
        choice = self._context.slot.choice
        if choice is None or choice == self._noted:
            return
        self._noted = choice
        store.write_model(self._settings, choice.path_or_id, choice.adapter)
        if store.read_loading(self._settings):
            store.write_loading(self._settings, None)

    @Slot()
    def reopen(self) -> None:
        """Reopens the conversation that was shown when the app last ended, even after a crash."""
        attempt(self._context, tr("The last conversation could not be shown"), self._reopen)

    def _reopen(self) -> None:
        session, last = self._context.session, store.read_conversation(self._settings)
        if last is None or all(summary.id != last for summary in session.library.summaries()):
            return
        if store.read_reopening(self._settings) == last:
            self._context.say(
                tr(
                    "The last conversation is not shown, since Safelight closed while opening it. To try again, choose "
                    "it in the list."
                )
            )
            self.done()
            return
        store.write_reopening(self._settings, last)
        QTimer.singleShot(REOPENING_MS, self, self.done)
        session.open(last)

    @Slot()
    def done(self) -> None:
        """Marks the reopened conversation as harmless."""
        store.write_reopening(self._settings, None)

    def close(self) -> None:
        """Clears the marks of what is being reopened, since the app ends in order."""
        self.done()
        if store.read_loading(self._settings):
            store.write_loading(self._settings, None)

    @Slot()
    def _note(self) -> None:
        store.write_conversation(self._settings, self._context.session.conversation)

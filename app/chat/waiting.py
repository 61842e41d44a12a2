"""Holds a draft while its model loads: it stays in the composer and is sent once the model is loaded."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Slot

from app.chat.composer.composer import Composer
from app.context import AppContext
from app.system.timers import later


class Waiting(QObject):
    """Waits for one model and no other. ``send`` sends the composer's draft.

    Any change of the draft takes it back, so that no half-written text is sent. If the model fails to load, the draft
    stays in the composer.
    """

    def __init__(self, context: AppContext, composer: Composer, send: Callable[[str], object]) -> None:
        super().__init__(composer)
        self._context, self._composer, self._send = context, composer, send
        self._model = ""  # path or id that is waited for; empty if nothing waits
        # Waits until all replies that came together are applied, a model's and its adapter's.
        self._soon = later(self, self._look)
        composer.changed.connect(self.take_back)
        composer.taken_back.connect(self.take_back)
        context.busy_changed.connect(self._soon.start)

    @property
    def is_on(self) -> bool:
        return bool(self._model)

    def begin(self, model: str) -> None:
        """Lets the draft wait for a model, given by its path or id."""
        self._model = model
        self._composer.wait(True)

    @Slot()
    def take_back(self) -> None:
        """Ends waiting; the text stays in the composer as a draft."""
        self._model = ""
        self._composer.wait(False)

    @Slot()
    def _look(self) -> None:
        """Sends the draft if its model is loaded and idle; takes it back if another model or none is chosen."""
        if not self.is_on:
            return
        if self._context.present != self._model:
            self.take_back()
        elif not self._context.reason_to_wait():
            self.take_back()
            self._send(self._composer.text)

"""A prompt that was entered while its model loads: it stays in the composer, and is sent once the model is there."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Slot

from app.chat.composer.composer import Composer
from app.context import AppContext


class Waiting(QObject):
    """At most one prompt. It waits for the model that was to answer when it was entered, and for no other.

    Any change of the draft takes it back, so that nothing half written is sent. Should the model not load, the draft is
    where it was.
    """

    def __init__(self, context: AppContext, composer: Composer, send: Callable[[str], object]) -> None:
        super().__init__(composer)
        self._context, self._composer, self._send = context, composer, send
        self._model = ""  # path or id that is waited for; empty where nothing waits
        self._soon = QTimer(self)  # once all replies that came together are applied, an adapter's behind its model's
        self._soon.setSingleShot(True)
        self._soon.setInterval(0)
        self._soon.timeout.connect(self._look)
        composer.changed.connect(self.take_back)
        composer.taken_back.connect(self.take_back)
        context.busy_changed.connect(self._soon.start)

    @property
    def is_on(self) -> bool:
        """Returns whether a prompt waits."""
        return bool(self._model)

    def begin(self, model: str) -> None:
        """Let the draft wait for the model that is to answer it, by its path or id."""
        self._model = model
        self._composer.wait(True)

    @Slot()
    def take_back(self) -> None:
        """Let the draft be a draft again."""
        self._model = ""
        self._composer.wait(False)

    @Slot()
    def _look(self) -> None:
        """Send the prompt if its model is there and free; with another model, or none, it waits no longer."""
        if not self.is_on:
            return
        if self._context.answering != self._model:
            self.take_back()
        elif not self._context.is_borrowing and not self._context.reason_to_wait():
            self.take_back()
            self._send(self._composer.text)

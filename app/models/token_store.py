"""Stores the access token in a job and reports where it is. Never reads it: the keyring may ask for a password."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import QObject, QSettings, Signal, Slot

from app.models import tasks
from app.models.jobs import JobEnded, Jobs, ModelJob
from app.system.i18n import tr
from app.system.secret import Place, Secret

KEY = "models/token_kept"  # True if the keyring has a token; the token itself is not stored here


class TokenStore(QObject):
    """``words`` is empty if no token is stored."""

    changed = Signal()
    failed = Signal(str, str)  # message, details

    def __init__(self, jobs: Jobs, settings: QSettings, tokens: Secret) -> None:
        super().__init__()
        self._jobs, self._settings, self._tokens = jobs, settings, tokens
        self._saves = 0
        self.words = self._words("keyring") if settings.value(KEY) in (True, "true") else ""
        jobs.ended.connect(self._ended)

    @Slot(str)
    def keep(self, token: str) -> None:
        """Stores a token in place of the previous one."""
        self._saves += 1  # each job has its own key, so that all run, in order
        self._jobs.submit(ModelJob(f"token {self._saves}", "token", tasks.keep_token(self._tokens, token)))

    @Slot()
    def forget(self) -> None:
        self.keep("")

    @Slot(object)
    def _ended(self, ended: JobEnded) -> None:
        if ended.kind != "token":
            return
        if ended.failure is not None:
            self.failed.emit(str(ended.failure), ended.details)
            return
        place = cast(Place, ended.result)
        self._settings.setValue(KEY, place == "keyring")
        self.words = self._words(place)
        self.changed.emit()

    @staticmethod
    def _words(place: Place) -> str:
        return {
            "keyring": tr("✓ An access token is in the system's keyring."),
            "session": tr("✓ No keyring works here, so the token is kept until Safelight is closed."),
            "nowhere": "",
        }[place]

"""Which theme the app wears: the user's choice, or what the desktop says. Knows no window."""

from __future__ import annotations

from PySide6.QtCore import QObject, QSettings, Signal, Slot
from PySide6.QtWidgets import QApplication

from app.settings import store
from app.theme import DARKROOM, PAPER, Theme, apply_theme, system_theme


class Looks(QObject):
    """Dresses the app at once and after each change; ``changed`` lets windows follow."""

    changed = Signal()

    def __init__(self, settings: QSettings) -> None:
        super().__init__()
        self._settings = settings
        self.choice = store.read_theme(settings)
        QApplication.styleHints().colorSchemeChanged.connect(self._dress)
        self._dress()

    @property
    def theme(self) -> Theme:
        """What is worn now."""
        return {"darkroom": DARKROOM, "paper": PAPER}.get(self.choice) or system_theme()

    @Slot(str)
    def choose(self, choice: str) -> None:
        """``darkroom``, ``paper``, or ``system``."""
        self.choice = choice
        store.write_theme(self._settings, choice)
        self._dress()

    @Slot()
    def choose_next(self) -> None:
        """The one after the present choice."""
        place = store.THEMES.index(self.choice)
        self.choose(store.THEMES[(place + 1) % len(store.THEMES)])

    @Slot()
    def _dress(self) -> None:
        app = QApplication.instance()
        if isinstance(app, QApplication):
            apply_theme(app, self.theme)
        self.changed.emit()

"""The app's theme and text size: the user's choice, or the desktop's. Knows no window."""

from __future__ import annotations

from PySide6.QtCore import QObject, QSettings, Slot
from PySide6.QtWidgets import QApplication

from app.design.fonts import set_text_percent
from app.design.stylesheet import apply_theme, system_theme
from app.design.tokens import DARKROOM, PAPER, Theme
from app.settings import store
from app.settings.preferences import NUMBERS, Preferences
from app.system.timers import later

STEP_MS = 30  # further steps of the text size within this time are applied together: restyling all widgets takes longer


class Appearance(QObject):
    """Applies theme and text size at once and after each change."""

    def __init__(self, settings: QSettings, preferences: Preferences | None = None) -> None:
        """``preferences`` is modified in place; the default is read from the settings."""
        super().__init__()
        self._settings = settings
        self.preferences = store.read_preferences(settings) if preferences is None else preferences
        self._stepping = later(self, self._dress, STEP_MS)
        QApplication.styleHints().colorSchemeChanged.connect(self._dress)
        self._dress()

    @property
    def choice(self) -> str:
        """Returns ``darkroom``, ``paper``, or ``system``."""
        return self.preferences.theme

    @property
    def theme(self) -> Theme:
        """Returns the theme in use."""
        return {"darkroom": DARKROOM, "paper": PAPER}.get(self.choice) or system_theme()

    @Slot(str)
    def choose(self, choice: str) -> None:
        """Chooses ``darkroom``, ``paper``, or ``system``."""
        self.preferences.theme = choice
        store.write_preference(self._settings, self.preferences, "theme")
        self._dress()

    @Slot(int)
    def set_text_percent(self, percent: int) -> None:
        """Sets the size of all text in percent; 100 is the unscaled type scale."""
        self._note_text_percent(percent)
        self._dress()

    def _note_text_percent(self, percent: int) -> None:
        self.preferences.text_percent = percent
        store.write_preference(self._settings, self.preferences, "text_percent")

    def step_text(self, percent: int) -> None:
        """Changes the size of all text by so many percent of its normal size; quick steps are applied together."""
        size = NUMBERS["text_percent"]
        low, high = int(size.low), int(size.high)
        self._note_text_percent(max(low, min(high, self.preferences.text_percent + percent)))
        if not self._stepping.isActive():
            self._stepping.start()

    @Slot()
    def choose_next(self) -> None:
        """Chooses the theme that is not in use: dark for light, light for dark."""
        self.choose("paper" if self.theme is DARKROOM else "darkroom")

    @Slot()
    def _dress(self) -> None:
        set_text_percent(self.preferences.text_percent)
        app = QApplication.instance()
        if isinstance(app, QApplication):
            apply_theme(app, self.theme)

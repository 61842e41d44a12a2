"""The theme in use. Widgets read it when they paint; Qt repaints them when the palette or a style sheet changes."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.design.tokens import DARKROOM, Theme


class PublishedSignals(QObject):
    changed = Signal()
    settled = Signal()


_published, _current = PublishedSignals(), DARKROOM

changed = _published.changed
"""Emitted after the theme or the size of text has changed, for what holds colours: sheets, documents, icons, plots."""

settled = _published.settled
"""Emitted after all of them have followed, for what measures them."""


def current() -> Theme:
    """Returns the theme in use; Darkroom until one is published."""
    return _current


def publish(theme: Theme) -> None:
    """Set the theme of the whole app. ``apply_theme`` calls this when the palette and the font are set."""
    global _current
    _current = theme
    changed.emit()
    settled.emit()

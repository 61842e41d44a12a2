"""True if motion is reduced: nothing fades or glides. Widgets ask when something would begin to move."""

from __future__ import annotations

from app.design.themes import PublishedSignals

_published, _is_reduced = PublishedSignals(), False

changed = _published.changed
"""Emitted after the setting has changed, for what is moving then."""


def is_reduced() -> bool:
    return _is_reduced


def set_reduced(reduced: bool) -> None:
    """Reduce motion in the whole app, or allow it."""
    global _is_reduced
    if reduced != _is_reduced:
        _is_reduced = reduced
        changed.emit()

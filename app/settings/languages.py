"""The languages that have a translation catalogue."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QLocale

from app.system.i18n import DOMAIN, LOCALE


def installed(folder: Path = LOCALE) -> tuple[tuple[str, str], ...]:
    """Returns code and native name of each language with a catalogue; English needs none and is not included."""
    found = sorted(path.parent.parent.name for path in folder.glob(f"*/LC_MESSAGES/{DOMAIN}.mo"))
    return tuple((code, QLocale(code).nativeLanguageName().capitalize() or code) for code in found)

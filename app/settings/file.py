"""Opens the settings' file for QSettings, readable by its user alone; one that is damaged is set aside."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

from PySide6.QtCore import QSettings, QStandardPaths

from app.system.folders import set_aside, tighten
from app.system.i18n import tr
from engine import SafelightError
from engine.files import private_folder


def user_settings() -> tuple[QSettings, str]:
    """Returns the user's settings and a message for the user; Windows and macOS have their own stores."""
    if sys.platform in ("win32", "darwin"):
        return QSettings("Safelight", "Safelight"), ""
    place = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.GenericConfigLocation)
    return open_settings(Path(place) / "Safelight" / "Safelight.conf")


def open_settings(path: Path) -> tuple[QSettings, str]:
    """Opens the settings in a file. Returns them and a message for the user, empty if all is well."""
    said = ""
    try:
        private_folder(path.parent)
        settings = _opened(path)
        if settings.status() != QSettings.Status.NoError:
            aside = str(set_aside(path))
            settings = _opened(path)
            said = tr("Settings that could not be read are at their defaults. The file is kept as {path}.", path=aside)
    except (OSError, SafelightError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).rstrip(".")
        said = tr(
            "The settings in {path} cannot be used ({why}). Changes last until Safelight is closed.",
            path=str(path),
            why=why,
        )
        settings = _opened(path.with_name(f"{path.name}.{secrets.token_hex(4)}"), is_kept=False)
    return settings, said


def _opened(path: Path, *, is_kept: bool = True) -> QSettings:
    if is_kept and not os.path.lexists(path):  # QSettings would create it readable for everyone
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    tighten(path)
    return QSettings(str(path), QSettings.Format.IniFormat)

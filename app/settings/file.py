"""Checks the settings' file before QSettings reads it.

QSettings waits for ever for a pipe or for a lock that is not a file, reads a file of any size, and constructs what
``@Variant(...)`` describes: nested lists crash the process. So it is only given lines of the form it writes itself.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import time
from pathlib import Path

from PySide6.QtCore import QSettings, QStandardPaths

from app.system.folders import set_aside, tighten
from app.system.i18n import tr
from engine import SafelightError
from engine.files import is_plain_file, private_folder, read_bytes, write_text

MOST_BYTES = 2**17  # our settings take about 2 kB
LOCK_SECONDS = 0.2  # QSettings holds its lock for milliseconds

_ELEMENT = r'(?:\s*"(?!@(?!@))(?:[^"\\]|\\[\\"n])*"\s*|(?!\s*@(?!@|Invalid\(\)))(?:[^"\\,]|\\[\\"n])*)'
_NAME = r"(?:[A-Za-z0-9_.\\-]|%[0-9A-F]{2}|%U[0-9A-F]{4}){1,200}"  # QSettings lengthens other names
_VALUE = re.compile(rf"{_NAME}={_ELEMENT}(?:,{_ELEMENT})*")
_NO_TEXT = re.compile("[\x00-\x1f\x7f\udc80-\udcff]")  # control characters, and bytes that are not UTF-8
_SECTION = re.compile(rf"\[(?:%General|{_NAME})\]")


def user_settings() -> tuple[QSettings, str]:
    """Returns the user's settings and a message for the user; Windows and macOS have their own stores."""
    if sys.platform in ("win32", "darwin"):
        return QSettings("Safelight", "Safelight"), ""
    place = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.GenericConfigLocation)
    return open_settings(Path(place) / "Safelight" / "Safelight.conf")


def open_settings(path: Path) -> tuple[QSettings, str]:
    """Opens the settings in a file of unknown content. Returns them and a message for the user, empty if all is well.

    A file that cannot be read completely is set aside, and its readable lines are kept.
    """
    try:
        private_folder(path.parent)
        _free_lock(path.with_name(f"{path.name}.lock"))
        problem = _clean(path)
    except (OSError, SafelightError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).rstrip(".")
        problem = tr(
            "The settings in {path} cannot be used ({why}). Changes last until Safelight is closed.",
            path=str(path),
            why=why,
        )
        path = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    return QSettings(str(path), QSettings.Format.IniFormat), problem


def _free_lock(lock: Path) -> None:
    """Removes a stale lock: QSettings waits 30 s for it, and for ever if it is not a file."""
    ends = time.monotonic() + LOCK_SECONDS
    while os.path.lexists(lock):
        if not is_plain_file(lock):
            set_aside(lock)
        elif time.monotonic() > ends:
            lock.unlink(missing_ok=True)
        else:
            time.sleep(0.01)


def _clean(path: Path) -> str:
    text = ""
    try:
        data = read_bytes(path, MOST_BYTES)
    except FileNotFoundError:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # QSettings would create it readable for everyone
        return ""
    except (OSError, SafelightError):
        pass
    else:
        text, whole = _readable(data)
        if whole:
            tighten(path)
            return ""
    aside = set_aside(path)
    write_text(path, text, private=True)
    return tr("Settings that could not be read are at their defaults. The file is kept as {path}.", path=str(aside))


def _readable(data: bytes) -> tuple[str, bool]:
    """Returns the lines of the form that QSettings writes, and True if there are no others."""
    kept: list[str] = []
    known = whole = True  # known: True if the current section is readable
    for line in data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n"):
        line = line.removesuffix("\r")
        if line.startswith("["):
            known = good = bool(_SECTION.fullmatch(line))
        else:
            good = not line or line.startswith((";", "#")) or (known and bool(_VALUE.fullmatch(line)))
        if good and not _NO_TEXT.search(line):
            kept.append(line)
        else:
            whole = False
    return "\n".join(kept), whole

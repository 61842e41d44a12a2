"""Windows' own requirements of names, paths and files. Other systems are unaffected.

The rules are functions of strings, by Windows' own path rules (``ntpath``), so that they are tested on every system.
"""

from __future__ import annotations

import ntpath
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

IS_WINDOWS: bool = sys.platform == "win32"
MAX_FOLDER_CHARACTERS = 247  # characters of a folder's path that need no prefix; a file's may have 259
BENEATH = 120  # characters that are left for names in a model's folder
PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)  # seconds between tries

_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\..*)?")
_REFUSED = re.compile(r'[<>:"/\\|?*\x00-\x1f]')


def why_refused(name: str) -> str:
    """Returns why Windows refuses a file of this name or takes it for something else; empty if it does not."""
    if _DEVICE.fullmatch(name):
        return "it is the name of a device"
    if match := _REFUSED.search(name):
        return f"a name must not contain {match[0]!r}"
    return "a name must not end with a dot or a space" if name.endswith((".", " ")) else ""


def extended(path: str, beneath: int = 0) -> str:
    r"""Returns a path in the form that has no limit of 260 characters (``\\?\``), if it needs it; else unchanged.

    Args:
        beneath: how many characters names below this folder may add.
    """
    if path.startswith(("\\\\?\\", "\\\\.\\")):
        return path
    full = ntpath.abspath(path)  # the other form knows neither / nor ..
    if len(full) + beneath <= MAX_FOLDER_CHARACTERS:
        return path
    return f"\\\\?\\UNC\\{full[2:]}" if full.startswith("\\\\") else f"\\\\?\\{full}"


def reachable(path: Path, beneath: int = 0) -> Path:
    """Returns the path to open: on Windows ``extended``, elsewhere unchanged."""
    return Path(extended(str(path), beneath)) if IS_WINDOWS else path


def retried(act: Callable[..., object], *paths: Path) -> None:
    """Renames or removes files. On Windows tries again for 0.8 s: virus scanners and indexers open new files.

    Raises:
        OSError: as ``act``; on Windows a PermissionError only of the last try.
    """
    for pause in PAUSES if IS_WINDOWS else ():
        try:
            act(*paths)
            return
        except PermissionError:
            time.sleep(pause)
    act(*paths)

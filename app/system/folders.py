"""The folders in which Safelight stores its files: the platform's, or one of the user's choice. Knows no Qt."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from engine import SafelightError, windows
from engine.files import private_folder

APP = "Safelight"


@dataclass(frozen=True)
class Folders:
    """``data`` holds conversations, ``models`` downloads, ``traces`` recorded runs, ``logs`` the log."""

    data: Path
    models: Path
    traces: Path
    logs: Path


def default_data_folder() -> Path:
    """Returns the platform's folder for application data."""
    return _own_folders()[0]


def folders(data_folder: str = "") -> Folders:
    """Returns the folders in use, without creating them; an empty ``data_folder`` is the platform's default."""
    own, logs = _own_folders()
    data = Path(data_folder).expanduser() if data_folder else own
    return Folders(data, data / "models", data / "traces", logs)


def _own_folders() -> tuple[Path, Path]:
    """Returns the platform's folders for application data and logs."""
    import platformdirs  # imported late, to show the window sooner

    return platformdirs.user_data_path(APP, appauthor=False), platformdirs.user_log_path(APP, appauthor=False)


def ensure(folder: Path) -> Path:
    """Creates a missing folder, private to the user, and checks that it is writable. Returns it.

    Raises:
        SafelightError: it cannot be created or written to; the message says what to do.
    """
    if windows.reachable(folder, windows.BENEATH) != folder:
        raise SafelightError(f"{folder} is too long for Windows; choose a shorter path")
    try:
        private_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # ValueError: an invalid path
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise SafelightError(
            f"{folder} cannot be used ({why}); choose another folder, or allow writing there"
        ) from None
    return folder


def tighten(file: Path) -> None:
    """Makes a file readable for its owner only (0600), if the system supports that."""
    with contextlib.suppress(OSError):
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            file.chmod(0o600)


def set_aside(path: Path) -> Path:
    """Renames an unusable file or folder to ``NAME.damaged-TIME.SUFFIX``; returns the new path.

    Raises:
        OSError: it cannot be renamed.
    """
    return path.rename(free_name(path.with_stem(f"{path.stem}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")))


def free_name(path: Path) -> Path:
    """Returns the path, with a number added if such a file exists."""
    number, free = 1, path
    while os.path.lexists(free):
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


def shown_name(path: Path) -> str:
    """Returns a file's name without its folder, with spaces for signs that cannot be shown; it may be empty."""
    return "".join(char if char.isprintable() else " " for char in path.name).strip()


def shortened(text: str) -> str:
    """Returns a text with the home folder written as ``~``, so that it does not name the user."""
    home = str(Path.home())
    if len(home) < 2:  # a home of "/" hides nothing, and would change every path
        return text
    for written in (home, Path(home).as_posix()):
        text = text.replace(written, "~")
    return text

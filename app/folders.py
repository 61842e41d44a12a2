"""Where Safelight keeps its files: the platform's own places, or a folder of the user's choice. Knows no Qt."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from engine import SafelightError

APP = "Safelight"


@dataclass(frozen=True)
class Folders:
    """``data`` holds the conversations, ``models`` what is downloaded, ``traces`` the runs, ``logs`` the log."""

    data: Path
    models: Path
    traces: Path
    logs: Path


def default_data_folder() -> Path:
    """The platform's place for an application's data."""
    import platformdirs

    return Path(platformdirs.user_data_path(APP, appauthor=False))


def folders(data_folder: str = "") -> Folders:
    """The folders in use; an empty ``data_folder`` takes the platform's own. Creates nothing."""
    import platformdirs

    data = Path(data_folder).expanduser() if data_folder else default_data_folder()
    return Folders(data, data / "models", data / "traces", Path(platformdirs.user_log_path(APP, appauthor=False)))


def ensure(folder: Path) -> Path:
    """Create a folder where it is missing, and make sure that it can be written to.

    Raises:
        SafelightError: it cannot be created or written to; says what to do.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # ValueError: a path that no system allows
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise SafelightError(f"{folder} cannot be used ({why}); choose another folder or free it for writing") from None
    return folder


def shortened(text: str) -> str:
    """A text with the home folder written as ``~``, which tells nobody's name."""
    home = str(Path.home())
    if len(home) < 2:  # the root: nothing to hide, and every path would change
        return text
    for written in (home, Path(home).as_posix()):
        text = text.replace(written, "~")
    return text

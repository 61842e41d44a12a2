"""Where Safelight keeps its files: the platform's own places, or a folder of the user's choice. Without Qt."""

from __future__ import annotations

import contextlib
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from engine import SafelightError
from engine.files import private_folder

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
    return _own_folders()[0]


def folders(data_folder: str = "") -> Folders:
    """The folders in use; an empty ``data_folder`` takes the platform's own. Creates nothing."""
    own, logs = _own_folders()
    data = Path(data_folder).expanduser() if data_folder else own
    return Folders(data, data / "models", data / "traces", logs)


def _own_folders() -> tuple[Path, Path]:
    """The platform's places for an application's data and its log."""
    import platformdirs  # at its first use, not with what the window imports

    return platformdirs.user_data_path(APP, appauthor=False), platformdirs.user_log_path(APP, appauthor=False)


def ensure(folder: Path) -> Path:
    """Create a folder for the user alone where it is missing, and make sure that it can be written to.

    Raises:
        SafelightError: it cannot be created or written to; says what to do.
    """
    try:
        private_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # ValueError: a path that no system allows
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise SafelightError(f"{folder} cannot be used ({why}); choose another folder or free it for writing") from None
    return folder


def tighten(file: Path) -> None:
    """Make a file readable for its owner alone (0600), as far as the system allows it."""
    with contextlib.suppress(OSError):
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            file.chmod(0o600)


def set_aside(path: Path) -> Path:
    """Rename what cannot be used, file or not, to ``NAME.damaged-TIME.SUFFIX`` beside it; returns its new place.

    Raises:
        OSError: it cannot be renamed.
    """
    name = f"{path.stem}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    number, aside = 1, path.with_name(name + path.suffix)
    while aside.exists() or aside.is_symlink():
        number += 1
        aside = path.with_name(f"{name}-{number}{path.suffix}")
    return path.rename(aside)


def shortened(text: str) -> str:
    """A text with the home folder written as ``~``, so that it names nobody."""
    home = str(Path.home())
    if len(home) < 2:  # the root: nothing to hide, and every path would change
        return text
    for written in (home, Path(home).as_posix()):
        text = text.replace(written, "~")
    return text

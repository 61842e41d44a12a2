"""``safelight`` without a subcommand: opens the window, after checks for conditions under which Qt would abort.

The checks are cheap and import no Qt: there is a display, and the system libraries load.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from engine import SafelightError, catalog, found
from engine.service import is_remote

LOADER_SECONDS = 20.0  # seconds for the system's loader to name missing libraries
INSTEAD = "In a terminal, use safelight generate, safelight sudoku or safelight bench"
PACKAGES = (
    "libegl1 libgl1 libglib2.0-0 libxkbcommon0 libdbus-1-3 libfontconfig1 libxcb-cursor0 libxcb-icccm4 libxcb-keysyms1 "
    "libxcb-shape0 libxkbcommon-x11-0 libxcb-randr0 libxcb-image0 libxcb-render-util0"
)
"""The packages that a window under X11 needs of a bare Debian or Ubuntu; they bring the rest of what ``ldd`` names."""


def run(args: argparse.Namespace) -> int:
    """Opens the window and stays until it is closed.

    Raises:
        SafelightError: no display, or a system library that Qt needs is missing.
    """
    if sys.platform.startswith(("linux", "freebsd")) and needs_xcb(os.environ):
        require_libraries()
    with _leaving_on_ctrl_c():
        try:
            from app.main import run as run_window  # Qt, which may be missing
        except ImportError as error:
            if not (error.name or "").startswith(("PySide6", "shiboken6")) and ".so" not in str(error):
                raise  # a bug of ours, not a missing library
            raise SafelightError(_missing(str(error), *_qt("QtWidgets*.so"))) from error
        return run_window(_place_of(args.window_model), args.window_seed, args.self_test)


def _place_of(model: str | None) -> str | None:
    """Returns the path of a model by the name that ``engine.found`` finds it by; any other as it is."""
    if model is None or catalog.title(model) or is_remote(model) or os.path.exists(model):
        return model
    return str(found.find(model) or model)


@contextmanager
def _leaving_on_ctrl_c() -> Iterator[None]:
    """Lets Ctrl+C end the process at once until the window has its own handler; nothing can be lost before.

    Qt's modules abort if a KeyboardInterrupt is raised while they load.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(130))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def needs_xcb(environment: Mapping[str, str]) -> bool:
    """True if the window will use X11.

    Raises:
        SafelightError: there is no display.
    """
    asked = [name.partition(":")[0] for name in environment.get("QT_QPA_PLATFORM", "").split(";") if name]
    if any(name not in ("xcb", "wayland", "wayland-egl") for name in asked):
        return False  # offscreen, minimal, vnc, eglfs ...: Qt needs no display there
    wayland, x11 = environment.get("WAYLAND_DISPLAY"), environment.get("DISPLAY")
    if asked:
        wayland = wayland if any(name.startswith("wayland") for name in asked) else None
        x11 = x11 if "xcb" in asked else None
    if not wayland and not x11:
        raise SafelightError(f"there is no display to open a window on. {INSTEAD}")
    return not wayland


def require_libraries() -> None:
    """Loads Qt's X11 plugin as a test: if it does not load, Qt would abort the process.

    Raises:
        SafelightError: it does not load; names what is missing, and the packages.
    """
    for plugin in _qt("Qt/plugins/platforms/libqxcb.so"):
        try:
            ctypes.CDLL(str(plugin))
        except OSError as error:
            raise SafelightError(_missing(str(error), plugin)) from error


def _qt(pattern: str) -> list[Path]:
    """Returns files of PySide6 by a pattern below its folder; none if it is not installed."""
    spec = importlib.util.find_spec("PySide6")
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    return [path for folder in folders for path in Path(folder).glob(pattern)]


def _missing(said: str, *files: Path) -> str:
    """Explains why Qt does not load, from the loader's message and the libraries missing for ``files``."""
    if "No module named" in said:
        return f"the window needs PySide6, which is not installed ({said}). {INSTEAD}"
    names = dict.fromkeys(name for file in files for name in _not_found(file))
    return (
        f"the window cannot open because system libraries are missing ({', '.join(names) or said}). On Debian and "
        f"Ubuntu: sudo apt-get install {PACKAGES}"
    )


def _not_found(file: Path) -> list[str]:
    """Returns the libraries that the system's loader does not find for a file; none if the loader cannot be asked."""
    try:
        done = subprocess.run(["ldd", str(file)], capture_output=True, text=True, timeout=LOADER_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    return re.findall(r"^\s*(\S+) => not found", done.stdout, re.MULTILINE)

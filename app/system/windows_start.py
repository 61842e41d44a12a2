"""Prepares a process on Windows at its start; does nothing on other systems. Not tested on Windows itself."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine import windows

TASKBAR_ID = "Safelight.Safelight"
OUTPUT, ERROR, ESCAPE_CODES = -11, -12, 4  # standard streams, and a flag of a console's mode


def load_torch_before_qt(load: Callable[[str], object] = ctypes.CDLL) -> None:
    """Loads torch's ``c10.dll``, which fails to load after Qt (WinError 1114), without importing torch.

    Qt's wheel contains a C++ runtime, ``msvcp140.dll``, that is older than the one c10 was built for. A process uses
    the first library loaded under a name. With c10 first, that is the system's runtime, which suits both.
    """
    spec = importlib.util.find_spec("torch") if windows.IS_WINDOWS else None
    if spec is not None and spec.origin is not None:
        with contextlib.suppress(OSError):  # a damaged torch is reported when a model is loaded
            load(str(Path(spec.origin).parent / "lib" / "c10.dll"))


def name_in_taskbar(system: Any = ctypes) -> None:
    """Gives the window its own entry and icon in the taskbar, instead of Python's."""
    if windows.IS_WINDOWS:
        with contextlib.suppress(OSError, AttributeError):
            system.windll.shell32.SetCurrentProcessExplicitAppUserModelID(TASKBAR_ID)


def enable_escape_codes(system: Any = ctypes) -> bool:
    """Enables escape codes in the console, which older consoles print as text. Returns False if it cannot."""
    if not windows.IS_WINDOWS:
        return True
    kernel, mode = system.windll.kernel32, ctypes.c_uint32()
    kernel.GetStdHandle.restype = ctypes.c_void_p
    handles = [ctypes.c_void_p(kernel.GetStdHandle(stream)) for stream in (OUTPUT, ERROR)]
    consoles = [handle for handle in handles if kernel.GetConsoleMode(handle, ctypes.byref(mode))]
    return all(kernel.SetConsoleMode(handle, mode.value | ESCAPE_CODES) for handle in consoles)

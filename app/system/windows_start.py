"""What a process on Windows does before it loads Qt; elsewhere nothing happens. Untested on Windows itself."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine import windows

TASKBAR_ID = "Safelight.Safelight"


def load_torch_before_qt(load: Callable[[str], object] = ctypes.CDLL) -> None:
    """Load torch's ``c10.dll``, which fails to load after Qt (WinError 1114), without importing torch.

    Qt's wheel has a C++ runtime of its own, ``msvcp140.dll``, older than the one that c10 was built for. A process has
    one library of a name, the first that was loaded: with c10 first, that is the system's, which suits both.
    """
    spec = importlib.util.find_spec("torch") if windows.IS_WINDOWS else None
    if spec is not None and spec.origin is not None:
        with contextlib.suppress(OSError):  # a damaged torch is reported when a model is loaded
            load(str(Path(spec.origin).parent / "lib" / "c10.dll"))


def name_in_taskbar(system: Any = ctypes) -> None:
    """Give the window an entry and icon of its own in the taskbar, where Python's would be shown."""
    if windows.IS_WINDOWS:
        with contextlib.suppress(OSError, AttributeError):
            system.windll.shell32.SetCurrentProcessExplicitAppUserModelID(TASKBAR_ID)

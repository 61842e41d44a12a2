"""The device that torch computes on here and that this program was never run on: AMD's by ROCm, Intel's, Apple's.

``models.device_check`` compares it with the processor before the first load. The verdict is kept in the user's cache,
for this device, torch and Safelight.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from torch import Tensor

from engine import windows
from engine.errors import SafelightError
from engine.files import private_folder, read_json, write_text
from engine.trace.header import app_version

NAMES = {"cuda": "AMD's graphics card", "xpu": "Intel's graphics card", "mps": "Apple's graphics processor"}
FILE, MAX_BYTES = "device.json", 2**14
_verdicts: dict[str, str] = {}  # of this process, by setting: a cache may be read-only


def experimental() -> torch.device | None:
    """Returns the device; None if there is none, or an NVIDIA card."""
    device = torch.accelerator.current_accelerator(check_available=True)
    if device is None or device.type not in NAMES or (device.type == "cuda" and torch.version.hip is None):
        return None
    return torch.device(device.type, 0)


def asked_for(device: object) -> torch.device | None:
    """Returns that device if ``device``, as ``load_model`` takes it, asks for it or leaves the choice."""
    own = experimental()
    return own if own is not None and device in ("auto", own.type, str(own)) else None


def in_fp64(numbers: Tensor) -> Tensor:
    """Returns numbers in float64, on the processor instead of a device that may have none: Apple's, some of Intel's."""
    return (numbers if numbers.device.type in ("cpu", "cuda") else numbers.cpu()).double()


def verdict(device: torch.device) -> str | None:
    """Returns why a device is not used, in words; empty if it was right, None if it was not checked yet."""
    setting = _setting(device)
    if setting in _verdicts:
        return _verdicts[setting]
    try:
        raw = read_json(_place(), most=MAX_BYTES)
    except (SafelightError, RuntimeError):  # there is none, or it is damaged; there is no home
        return None
    why = raw.get("why")
    return why if raw.get("setting") == setting and isinstance(why, str) else None


def keep(device: torch.device, why: str) -> None:
    """Keeps a verdict; where the cache cannot be written, for this process."""
    _verdicts[_setting(device)] = why
    try:
        file = _place()
        private_folder(file.parent)
        write_text(file, json.dumps({"setting": _setting(device), "why": why}), private=True)
    except (SafelightError, OSError, RuntimeError):
        return


def _place() -> Path:
    """Returns the file of the verdict, in the user's cache.

    Raises:
        RuntimeError: there is no home.
    """
    cache = os.environ.get("LOCALAPPDATA" if windows.IS_WINDOWS else "XDG_CACHE_HOME")
    return Path(cache or Path.home() / ".cache") / "safelight" / FILE


def _setting(device: torch.device) -> str:
    names = getattr(torch.get_device_module(device), "get_device_name", None)  # Apple's has none
    name = device.type if names is None else names(device)
    return f"{name}, torch {torch.__version__}, Safelight {app_version()}"

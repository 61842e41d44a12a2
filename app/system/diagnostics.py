"""A report of this installation for the clipboard: versions, the device, the settings, the log. Knows no Qt.

It contains no prompt, answer or access token, and the home folder is written as ``~``.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from app.system import logs, memory_use
from app.system.folders import Folders, shortened

NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Facts:
    """Facts, in words, that only the running app knows."""

    model: str = ""  # its title, or its folder
    device: str = ""  # as in "cuda:0, NVIDIA H200, 139.8 GB"
    kernels: str = ""  # which kernels compute, and why
    device_reason: str = ""  # why this device


def report(settings: Sequence[tuple[str, str]], folders: Folders, facts: Facts) -> str:
    """Returns the report, one fact per line; ``settings`` are names and values."""
    reason = f" ({facts.device_reason})" if facts.device_reason else ""
    lines = ["Safelight diagnostics", ""]
    lines += [f"{name}: {value}" for name, value in versions()]
    lines += [
        f"Processors: {os.cpu_count() or NOT_KNOWN}",
        f"Memory: {memory_use.size(memory_use.used_bytes())} of {memory_use.size(memory_use.total_bytes())}",
        "",
        f"Model: {facts.model or 'none'}",
        f"Device: {facts.device or NOT_KNOWN}{reason}",
        f"Kernels: {facts.kernels or NOT_KNOWN}",
        "",
        f"Data folder: {folders.data}",
        f"Log folder: {folders.logs}",
    ]
    lines += [f"{name} = {value}" for name, value in settings]
    found = logs.last_lines(folders.logs / logs.NAME)
    lines += ["", "Last lines of the log:", *(found or ["(empty)"])]
    return shortened("\n".join(lines)) + "\n"


def versions() -> list[tuple[str, str]]:
    """Returns the versions of the app, its libraries and the platform; torch's only if it is already imported."""
    found = [("Safelight", _installed("safelight")), ("Python", platform.python_version())]
    core = sys.modules.get("PySide6.QtCore")
    if core is not None:
        found.append(("Qt", f"{core.qVersion()}, PySide6 {core.__version__}"))
    torch = sys.modules.get("torch")  # importing it takes seconds, and is left to the engine
    found.append(("torch", str(torch.__version__) if torch is not None else "not loaded"))
    if torch is not None and getattr(torch.version, "cuda", None):
        found.append(("CUDA", str(torch.version.cuda)))
    found.append(("Platform", platform.platform()))
    return found


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # a bundle, or a checkout that is not installed
        return f"{NOT_KNOWN}, from {Path(__file__).resolve().parents[2]}"

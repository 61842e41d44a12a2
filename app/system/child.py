"""Starts a module of ours as a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from PySide6.QtCore import QProcess, QProcessEnvironment


def start_module(process: QProcess, module: str, option: str) -> None:
    """Starts a module as ``python -m`` does; a bundle starts itself with ``option``. Its standard error is lost."""
    process.setStandardErrorFile(QProcess.nullDevice())
    arguments = [option]
    if not getattr(sys, "frozen", False):  # -P: do not import from the current folder
        arguments = ["-P", "-m", module]
        environment = QProcessEnvironment.systemEnvironment()
        paths = [str(Path(__file__).resolve().parents[2]), *filter(None, [environment.value("PYTHONPATH")])]
        environment.insert("PYTHONPATH", os.pathsep.join(paths))
        process.setProcessEnvironment(environment)
    process.start(sys.executable, arguments)

"""The log file: what went wrong and where, never what was written or answered. Knows no Qt.

The text of an exception may quote a prompt, so only the kinds whose texts speak of the machine keep theirs.
"""

from __future__ import annotations

import logging
import traceback
from collections import deque
from logging.handlers import RotatingFileHandler
from pathlib import Path

from app.folders import ensure, shortened

NAME = "safelight.log"
BYTES = 1_000_000  # of a file
FILES = 3
LINES = 40  # shown in a report

log = logging.getLogger("safelight")

_SPEAKS_OF_THE_MACHINE = (OSError, ImportError, MemoryError, AttributeError, NameError, RecursionError)
_BY_NAME = ("OutOfMemoryError", "AcceleratorError")  # torch's, which is not to be imported here


def start(folder: Path) -> Path:
    """Write the log into this folder from now on, in three files of 1 MB at most. Returns the newest.

    Raises:
        SafelightError: the folder cannot be used.
    """
    stop()
    path = ensure(folder) / NAME
    handler = RotatingFileHandler(path, maxBytes=BYTES, backupCount=FILES - 1, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    return path


def stop() -> None:
    """Close the log file; may be called again."""
    for handler in list(log.handlers):
        if isinstance(handler, RotatingFileHandler):
            log.removeHandler(handler)
            handler.close()


def describe(error: BaseException) -> str:
    """An exception for the log: its kind and where it came from, and its text only where that can hold no prompt."""
    parts: list[str] = []
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        kind = type(at).__name__
        speaks = isinstance(at, _SPEAKS_OF_THE_MACHINE) or kind in _BY_NAME
        parts.append(f"{kind}: {' '.join(str(at).split())}" if speaks else kind)
        parts += [
            f"  {frame.filename}:{frame.lineno} in {frame.name}"
            for frame in reversed(traceback.extract_tb(at.__traceback__))
        ]
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return shortened("\n".join(parts))


def record(error: BaseException, where: str) -> None:
    """Write a fault into the log; ``where`` is ours, as in "in a slot"."""
    log.error("fault %s\n%s", where, describe(error))


def last_lines(path: Path, count: int = LINES) -> list[str]:
    """The log's last lines; none where there is no log."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=count)]
    except OSError:
        return []

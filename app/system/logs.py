"""The log file: errors and their places, without prompts or answers. Knows no Qt.

An exception's message may quote a prompt, so only messages of types that speak about the machine are logged.
"""

from __future__ import annotations

import contextlib
import logging
import os
import traceback
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from app.system.folders import ensure, set_aside, shortened, tighten
from engine import SafelightError
from engine.files import is_plain_file

NAME = "safelight.log"
BYTES = 1_000_000  # most of one file
FILES = 3

log = logging.getLogger("safelight")

_SPEAKS_OF_THE_MACHINE = (OSError, ImportError, MemoryError, AttributeError, NameError, RecursionError)
_BY_NAME = ("OutOfMemoryError", "AcceleratorError")  # torch's, by name: torch is not imported here


class _File(RotatingFileHandler):
    """A log file that only its owner can read. Write errors are ignored: what meets a full disk is lost, and no line
    waits for a later one."""

    def _open(self) -> TextIOWrapper:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)

        raw = open(self.baseFilename, f"{self.mode}b", buffering=0, opener=opener)  # noqa: SIM115
        return TextIOWrapper(raw, self.encoding, write_through=True)

    def rotate(self, source: str, dest: str) -> None:
        # Windows cannot rename a file that another window has open. The file then grows past its limit.
        with contextlib.suppress(PermissionError):
            super().rotate(source, dest)

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def start(folder: Path) -> Path:
    """Writes the log to this folder from now on, in three files of 1 MB at most. Returns the newest.

    Raises:
        SafelightError: the folder is unusable, or something other than a file has a log's name and cannot be moved.
    """
    stop()
    path = ensure(folder) / NAME
    for place in (path, *(path.with_name(f"{NAME}.{number}") for number in range(1, FILES))):
        if is_plain_file(place):
            tighten(place)
        elif os.path.lexists(place):  # a pipe would block, and a link would point elsewhere
            try:
                set_aside(place)
            except OSError as error:
                raise SafelightError(
                    f"{place} is not a file and cannot be moved ({error.strerror}); remove it"
                ) from None
    handler = _File(path, maxBytes=BYTES, backupCount=FILES - 1, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    return path


def stop() -> None:
    """Closes the log file; may be called again."""
    for handler in list(log.handlers):
        if isinstance(handler, RotatingFileHandler):
            log.removeHandler(handler)
            handler.close()


def describe(error: BaseException) -> str:
    """Returns an exception for the log: type, traceback, and the message only if it cannot contain a prompt."""
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
    """Writes a fault to the log; ``where`` is a phrase such as "in a slot"."""
    log.error("fault %s\n%s", where, describe(error))

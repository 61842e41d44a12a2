"""Handles uncaught exceptions in any thread: logs a traceback, shows one line, and lets the app continue."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, Signal, qInstallMessageHandler

from app.system import logs
from app.system.i18n import tr
from engine import SafelightError
from engine.errors import spoken

QUIET_SECONDS = 10.0
"""The least time between two reports of a fault at one place, as a fault in painting recurs sixty times a second."""

QtHandler = Callable[[QtMsgType, QMessageLogContext, str], object]


class CrashHandler(QObject):
    """Emits ``happened(message, details)`` in the receivers' thread for a fault in any thread."""

    happened = Signal(str, str)  # one line for the user; the traceback for a report

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._reported: dict[tuple[str, str, int], float] = {}
        self._lock = threading.Lock()
        self._before: tuple[object, object] | None = None
        self._qt_before: QtHandler | None = None
        self._takes_qt = False

    def install(self, *, qt_messages: bool = False) -> None:
        """Replaces Python's exception hooks; with ``qt_messages`` Qt's warnings are logged as well."""
        if self._before is None:
            self._before = sys.excepthook, threading.excepthook
            sys.excepthook = self._in_main
            threading.excepthook = self._in_thread
        if qt_messages and not self._takes_qt:
            self._takes_qt = True
            self._qt_before = qInstallMessageHandler(self._from_qt)

    def remove(self) -> None:
        """Restores the previous hooks; may be called again."""
        if self._before is not None:
            sys.excepthook, threading.excepthook = self._before  # type: ignore[assignment]
            self._before = None
        if self._takes_qt:
            qInstallMessageHandler(self._qt_before)
            self._takes_qt = False

    def report(self, error: BaseException, where: str) -> None:
        """Logs a fault and reports it; does not raise."""
        if not self._is_new(error):
            return
        try:
            logs.record(error, where)
            self.happened.emit(one_line(error), "".join(traceback.format_exception(error)))
        except Exception:  # it cannot be reported otherwise
            traceback.print_exc()

    def _is_new(self, error: BaseException) -> bool:
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1] if frames else None
        place = (type(error).__name__, last.filename if last else "", (last.lineno or 0) if last else 0)
        now = self._clock()
        with self._lock:
            before = self._reported.get(place)
            if before is not None and now - before < QUIET_SECONDS:
                return False
            self._reported[place] = now
        return True

    def _in_main(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, Exception):
            self.report(error.with_traceback(trace), "in the window's thread")
        else:  # Ctrl+C in the terminal
            sys.__excepthook__(kind, error, trace)

    def _in_thread(self, args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            self.report(args.exc_value, "in another thread")

    def _from_qt(self, kind: QtMsgType, context: QMessageLogContext, text: str) -> None:
        if kind in (QtMsgType.QtWarningMsg, QtMsgType.QtCriticalMsg, QtMsgType.QtFatalMsg):
            logs.log.warning("Qt, %s: %s", context.category, text[:300])
        if self._qt_before is not None:
            self._qt_before(kind, context, text)
        elif sys.stderr is not None:  # None in a windowed program on Windows
            print(text, file=sys.stderr)


def one_line(error: BaseException) -> str:
    """Returns a sentence about a fault and the next step."""
    if isinstance(error, SafelightError):
        return str(error)
    return tr(
        "Something went wrong: {text}. Safelight goes on. To report it, use the log: Settings, Help has its folder.",
        text=spoken(error),
    )

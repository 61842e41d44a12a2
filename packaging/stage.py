"""A real window in a temporary folder, for pictures and films of it: opened at a size, and waited for."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QElapsedTimer, QEventLoop, QSettings, QTimer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from app.bridge.engine_thread import EngineLink
from app.bridge.remote_access import RemoteAccess
from app.chat.markdown_view.side_process import side_process
from app.main import application, make_link, make_window
from app.window.main_window import MainWindow
from engine.service import LocalBackend, PassWanted

LONGEST_WAIT_MS = 120_000


class PausedBackend(LocalBackend):
    """Runs can be held midway."""

    def __init__(self) -> None:
        super().__init__()
        self._going = threading.Event()
        self._passes = -1  # until they are held; below 0 never

    def hold_after(self, passes: int) -> None:
        """Hold all runs after so many passes from now on."""
        self._going.clear()
        self._passes = passes

    def go_on(self) -> None:
        """Hold them no longer."""
        self._passes = -1
        self._going.set()

    def perform(self, passes: Sequence[PassWanted]) -> None:
        if self._passes == 0:
            self._going.wait()
        self._passes -= 1
        super().perform(passes)


@contextmanager
def opened(
    size: str, seed: int, pace: str | None = None, backend: LocalBackend | None = None
) -> Iterator[tuple[MainWindow, EngineLink]]:
    """The window, not shown yet, and its engine, with nothing loaded.

    Args:
        size: WxH in logical pixels.
        pace: of a canvas, as the settings keep it; a large one leaves time to catch it half done.
        backend: of models here, in place of the usual one.
    """
    width, height = map(int, size.split("x"))
    application()
    remote = RemoteAccess()
    link = make_link(backend or LocalBackend(), remote)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        os.environ["XDG_DATA_HOME"] = f"{folder}/.local/share"
        settings = QSettings(f"{folder}/settings.ini", QSettings.Format.IniFormat)
        if pace is not None:
            settings.setValue("canvas/pace", pace)
        window = make_window(link, settings, seed, remote=remote)
        window.resize(width, height)
        yield window, link
        window.close()


def load(window: MainWindow, model: str) -> None:
    """Load a model and wait for it."""
    window.context.load(model)
    wait_for(lambda: window.context.model is not None, "the model")


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Run the event loop until the condition holds."""
    loop = QEventLoop()
    clock = QElapsedTimer()
    clock.start()
    timer = QTimer()
    timer.timeout.connect(lambda: loop.quit() if condition() or clock.elapsed() > LONGEST_WAIT_MS else None)
    timer.start(1)
    loop.exec()
    if not condition():
        raise SystemExit(f"gave up waiting for {what}")


def settle(milliseconds: int = 400) -> None:
    """Let fades and layouts come to rest, with formulas and the colours of programs."""
    wait_for(lambda: side_process().is_idle, "formulas")
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


@contextmanager
def frozen(link: EngineLink) -> Iterator[None]:
    """No further events are delivered meanwhile, and the latest step goes on to appear; then what came is delivered."""
    link.pacing._is_due = lambda _key, _reply: False
    yield
    del link.pacing._is_due
    link.pacing.drain()

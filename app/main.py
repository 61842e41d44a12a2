"""Creates the app's objects and starts the window. Does not import torch, to paint early."""

# ruff: noqa: E402 - the clock, and libraries that must be loaded before Qt, come first
from __future__ import annotations

import time

STARTED = time.perf_counter()  # as close to the start of the process as this module can get

import contextlib
import functools
import os
import tempfile
from pathlib import Path

from app.system import windows_start

windows_start.load_torch_before_qt()

from PySide6.QtCore import QSettings, QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication

from app.bridge.engine_thread import EngineLink
from app.bridge.remote_access import RemoteAccess
from app.context import AppContext
from app.library import Library
from app.self_test import SelfTest
from app.settings.store import read_preferences, unread, user_settings
from app.system import logs
from app.system.crash_handler import CrashHandler, one_line
from app.system.folders import Folders, ensure, folders
from app.system.i18n import tr
from app.system.timers import CycleCollector, Interrupts
from app.window.main_window import MainWindow
from engine import SafelightError
from engine.catalog import SMALL
from engine.service import Backend, BackendRouter, LocalBackend

ICON = Path(__file__).resolve().parent.parent / "assets" / "icons" / "safelight.svg"


def application() -> QApplication:
    """Returns the process's QApplication, with its name and icon."""
    windows_start.name_in_taskbar()
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        app = QApplication([])
    app.setApplicationName("Safelight")
    app.setOrganizationName("Safelight")
    app.setDesktopFileName("safelight")
    app.setWindowIcon(QIcon(str(ICON)))
    return app


def open_library(folder: Path) -> Library:
    """Opens the library in a folder; if that fails, returns one in memory whose ``notice`` says why."""
    try:
        return Library.open(folder)
    except Exception as error:  # the window must open with any file content
        logs.record(error, "in opening the library")
        library = Library.in_memory()
        problem = one_line(error).rstrip(".")
        library.notice = tr("{problem}. Until then, conversations are not saved.", problem=problem)
        return library


def make_link(local: Backend, remote: RemoteAccess, traces: Path | None = None) -> EngineLink:
    """Returns the engine: ``local`` runs local models; runs of remote ones are stored in ``traces``, if given."""

    def make_remote() -> Backend:
        from engine.service.remote import RemoteBackend  # imports HTTP, which a start does not need

        return RemoteBackend(traces, remote.key_of, remote.is_allowed)

    return EngineLink(BackendRouter(local, make_remote))


def make_window(
    link: EngineLink,
    settings: QSettings,
    seed: int | None = None,
    library: Library | None = None,
    remote: RemoteAccess | None = None,
) -> MainWindow:
    """Returns the window with all its parts and no model loaded; ``library`` defaults to the user's."""
    return MainWindow(make_context(link, settings, seed, library, remote))


def make_context(
    link: EngineLink,
    settings: QSettings,
    seed: int | None = None,
    library: Library | None = None,
    remote: RemoteAccess | None = None,
) -> AppContext:
    """Returns the context of the pages; see ``make_window`` and ``AppContext``."""
    preferences = read_preferences(settings)
    places = folders(preferences.data_folder)
    return AppContext(link, settings, library or open_library(places.data), places, seed, remote)


def start_log(folder: Path) -> str:
    """Starts logging to a folder. Returns a sentence if that fails; else empty."""
    try:
        logs.start(folder)
    except SafelightError as error:
        return tr("Errors are not logged: {problem}", problem=str(error))
    return ""


def traces_folder(settings: QSettings) -> Path:
    """Returns the folder in which runs are stored for replay."""
    return folders(read_preferences(settings).data_folder).traces


def run(model: str | None = None, seed: int | None = None, ask: str | None = None) -> int:
    """Opens the window and returns when it is closed.

    Args:
        model: a model folder or an embedded model's id; None takes the one that was loaded last, or for a test the
            skills model.
        seed: the fixed seed of this session; None keeps the user's own setting.
        ask: the prompt of an end-to-end test, sent once the model is loaded; prints the answer and closes the window.

    Returns:
        The exit code.

    Raises:
        SafelightError: the data folder cannot be used; only with ``ask``.
    """
    app = application()
    if ask is not None:
        ensure(folders(read_preferences(user_settings()[0]).data_folder).data)
    with contextlib.ExitStack() as ending:  # ends every thread, also after a failure
        interrupts = Interrupts(app)
        ending.callback(interrupts.close)
        settings, problem = user_settings()
        problems = [problem, unread(settings), start_log(folders(read_preferences(settings).data_folder).logs)]
        ending.callback(logs.stop)
        crashes = CrashHandler()
        ending.callback(crashes.remove)
        crashes.install(qt_messages=True)
        remote, traces = RemoteAccess(), None if ask is not None else traces_folder(settings)
        link = make_link(LocalBackend(traces), remote, traces)
        ending.callback(link.shutdown)
        context = make_context(link, settings, seed, Library.in_memory() if ask is not None else None, remote)
        ending.callback(context.close)
        window = MainWindow(context)
        ending.callback(window.close)
        crashes.happened.connect(context.say)
        for problem in filter(None, problems):
            context.say(problem)
        window.reopening.expect_model(model if ask is None else model or SMALL)
        window.firstPainted.connect(functools.partial(QTimer.singleShot, 0, window.reopening.load_model))
        window.firstPainted.connect(window.reopening.reopen)
        if ask is None:
            window.firstPainted.connect(context.serve)
        collector = CycleCollector(app)
        ending.callback(collector.close)
        window.show()
        test = SelfTest(window, ask) if ask is not None else None
        code = int(app.exec())
    code = code if test is None else test.code
    if link.is_alive:  # Qt aborts if it destroys a running thread; everything is saved by now
        os._exit(code)
    return code


def measure_first_paint() -> float:
    """Returns the seconds from this module's import to the first paint; loads no model and stores no settings."""
    app = application()
    with tempfile.TemporaryDirectory() as folder:
        link = EngineLink(LocalBackend())
        settings = QSettings(f"{folder}/settings.ini", QSettings.Format.IniFormat)
        window = MainWindow(AppContext(link, settings, Library.in_memory(), Folders(*[Path(folder)] * 4)))
        painted: list[float] = []

        def note() -> None:
            painted.append(time.perf_counter() - STARTED)
            QTimer.singleShot(0, app.quit)

        window.firstPainted.connect(note)
        window.show()
        app.exec()
        link.shutdown()
        window.close()
        return painted[0]

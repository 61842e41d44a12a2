"""Fixtures of all tests: Qt without a display, settings in a temporary folder, no thread left behind."""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")  # before anything imports Qt
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: on tiny models a second thread only waits for the first
# Where this is set, each of the many processes here compiles all of torch again.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""

import pytest

if TYPE_CHECKING:
    from PySide6.QtCore import QSettings
    from PySide6.QtWidgets import QApplication

SCREEN = Path(__file__).with_name("screen.json")  # of the usual size; without it the screen has 800 pixels a side
if os.environ["QT_QPA_PLATFORM"] == "offscreen" and ":" not in str(SCREEN):
    os.environ["QT_QPA_PLATFORM"] = f"offscreen:configfile={SCREEN}"

# The longest come first, and in this order: with one of them at the end, one worker would work and the other wait.
LONG = (
    "tests/test_house.py",
    "tests/engine/kernels/test_budgets.py",
    "tests/engine/kernels/test_expert_compile.py",
    "tests/e2e/",  # which wait
    "tests/hostile/",
    "tests/engine/decoding/test_fork.py",
    "tests/engine/training/",
    "tests/app/cli/test_main.py",
    "tests/engine/kernels/",
    "tests/engine/memory/test_plan.py",
)
KERNELS = Path(__file__).parents[1] / ".pytest_cache" / "built" / "safelight" / "kernels"
PATIENCE_SECONDS = 30.0  # the first test of a process may build the libraries in C


def _place(item: pytest.Item) -> int:
    """The place of an item among the long ones; behind them all others, in the order of their collection."""
    return next((place for place, start in enumerate(LONG) if item.nodeid.startswith(start)), len(LONG))


os.fsync = lambda _: None  # six milliseconds for each small file: what a power cut would lose is seen by no test
gc.disable()  # imports make a great many objects and next to no cycles


def pytest_configure(config: pytest.Config) -> None:
    """A worker ends at once: to clear away what it imported takes four seconds, and nothing in it asks for that.

    The library in C is built once for all of them and for the programs that they start.
    """
    KERNELS.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(KERNELS.parents[1])  # of what is asked for in the collection
    if hasattr(config, "workerinput"):
        atexit.register(_leave, os.getpid())
    else:
        atexit.register(gc.unfreeze)  # so that libraries that count what they leave behind find nothing


def _leave(worker: int) -> None:
    if os.getpid() == worker:  # and not in a process that it forked
        os._exit(0)


def pytest_collection_finish() -> None:
    """Keep what is imported: no collection goes through it again."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Collect what is left once: pytest goes through it five times at its end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # a test's own marks come before
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The offscreen platform says of each window what it cannot do; that is no fault of ours."""
    for item in items:
        item.add_marker(pytest.mark.qt_log_ignore("This plugin does not support"))
    items.sort(key=_place)


@pytest.fixture(autouse=True)
def _first_theme() -> None:
    """Each test begins in the first theme and with motion, whatever the one before has published."""
    themes, motion = sys.modules.get("app.design.themes"), sys.modules.get("app.design.motion")
    if themes and themes.current() is not themes.DARKROOM:
        themes.publish(themes.DARKROOM)
    if motion:
        motion.set_reduced(False)


_users = itertools.count()


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep to folders of the test, not the user's own settings and data; the library in C is that of all tests."""
    folder = f"{tmp_path_factory.getbasetemp()}/user{next(_users)}"  # few tests need it: whoever does makes it
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        os.environ[name] = f"{folder}/{name.lower()}"  # until the next test's
    if os.name != "nt":  # where none is built, and links need a right
        os.makedirs(f"{folder}/xdg_cache_home/safelight")
        os.symlink(KERNELS, f"{folder}/xdg_cache_home/safelight/kernels")
    found = sys.modules.get("engine.found")
    if found:
        found.home, found.OLLAMA_SERVICE = lambda: Path(folder), Path(folder) / "service"
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE"):
        os.environ.pop(name, None)
    core = sys.modules.get("PySide6.QtCore")
    if core is not None:
        for kind in (core.QSettings.Format.NativeFormat, core.QSettings.Format.IniFormat):
            core.QSettings.setPath(kind, core.QSettings.Scope.UserScope, f"{folder}/settings")


@pytest.fixture(autouse=True)
def without_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package brings a model, whatever is installed here; tests of that model override this."""
    from engine.catalog import PackagedModel

    monkeypatch.setattr(PackagedModel, "is_here", False)


@pytest.fixture(scope="module", autouse=True)
def _look_of_its_own() -> Iterator[None]:
    """A window gives the app a style and a font: a file's widths must not hang on the files before it."""
    yield
    widgets = sys.modules.get("PySide6.QtWidgets")
    app = widgets and widgets.QApplication.instance()
    if app and _first_look and app.font() != _first_look[2]:
        app.setStyle(_first_look[0])
        app.setPalette(_first_look[1])
        app.setFont(_first_look[2])


_first_look: list[Any] = []  # style, palette and font of the app before any test


LOOK_MS = 2  # between two looks of ``waitUntil``, in place of 10


@pytest.fixture(scope="session", autouse=True)
def _looks_are_frequent() -> None:
    """A test waits some hundred times for another thread, each time half a pause too long."""
    from pytestqt.qtbot import QtBot

    usual = QtBot.wait
    QtBot.wait = lambda self, ms: usual(self, LOOK_MS if ms == 10 else ms)  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def qapp(qapp: QApplication) -> QApplication:
    """Notes how the app looks before any test changes it."""
    _first_look[:] = qapp.style().objectName(), qapp.palette(), qapp.font()
    return qapp


_owners: weakref.WeakSet[Any] = weakref.WeakSet()  # of Qt threads, as they come into being
_owners_are_watched: list[bool] = []


def _watch_owners() -> None:
    from app.bridge.engine_thread import EngineLink
    from app.models.jobs import Jobs

    for kind in (EngineLink, Jobs):

        def begin(self: Any, *args: Any, _begin: Any = kind.__init__, **named: Any) -> None:
            _begin(self, *args, **named)
            _owners.add(self)

        kind.__init__ = begin  # type: ignore[method-assign]
    _owners_are_watched.append(True)


def _send_off() -> None:
    """Deletes what a test closed, as pytest-qt only asks for it: the next window would be dressed along with it."""
    core = sys.modules["PySide6.QtCore"]
    core.QCoreApplication.sendPostedEvents(None, core.QEvent.Type.DeferredDelete.value)


@pytest.fixture(autouse=True)
def _no_leaked_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """A thread that a test starts must have ended when the test ends."""
    uses_qt = "qapp" in request.fixturenames
    if uses_qt and not _owners_are_watched:
        _watch_owners()
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        # Python lists a foreign thread that ran Python code as a dummy, and keeps it after its end.
        if not isinstance(thread, threading._DummyThread):
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), f"the test leaked the thread {thread.name}"
    if uses_qt:
        _send_off()
        running = [owner for owner in _owners if owner.is_alive]
        assert not running, f"the test leaked a thread of the engine or of the jobs: {running}"


@pytest.fixture(autouse=True)
def _collect_here() -> Iterator[None]:
    """Collect cycles in this thread, as the app does, so that no Qt object dies in the engine's."""
    gc.disable()
    yield
    gc.collect(1)


@pytest.fixture
def settings(tmp_path: Path) -> QSettings:
    """A settings file of the test's own."""
    from PySide6.QtCore import QSettings

    return QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)

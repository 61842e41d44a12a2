"""The context of every page: the model, the engine, the settings, the session, and signals that connect the parts.

Pages and views subscribe to these signals, and do not import the window.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from PySide6.QtCore import QObject, QSettings, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QStyle, QWidget

from app.bridge.engine_thread import EngineLink
from app.bridge.remote_access import RemoteAccess
from app.bridge.server_link import ServerLink
from app.design import motion
from app.design.notice import Notice
from app.library import Library
from app.session.model_slot import Loading, ModelChoice, ModelSlot
from app.session.session import Session
from app.settings import store
from app.system.folders import Folders
from app.system.i18n import tr
from app.system.timers import later
from app.tools.toolbox import Toolbox
from engine import Recording
from engine.catalog import SMALL
from engine.memory.machine import Machine, look
from engine.service import LoadedModel, ServiceReply, TraceNotKept

CHAT, INSPECTOR, SUDOKU, DECISIONS = "chat", "inspector", "sudoku", "decisions"
RACE, MODELS, SERVER = "race", "models", "server"
"""The names of the pages."""

T_co = TypeVar("T_co", covariant=True)


class Page(Protocol):
    """A page's controller. It connects itself to the context's signals when it is created."""

    @property
    def widget(self) -> QWidget:
        """The page's widget."""

    @property
    def notice(self) -> Notice | None:
        """The page's own error display; None if the window shows its errors."""

    def enter(self) -> None:
        """Called when the page is brought to the front."""


class Lazy(Generic[T_co]):
    """A value that is created on first use."""

    def __init__(self, make: Callable[[], T_co]) -> None:
        self._make = make
        self.made: T_co | None = None  # before the first use

    def __call__(self) -> T_co:
        if self.made is None:
            self.made = self._make()
        return self.made


class Waiting(QObject):
    """Does something once a model is loaded and nothing else runs; gives up if another model is chosen instead."""

    ended = Signal()  # whatever came of it

    def __init__(self, context: AppContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._wanted: tuple[str, Callable[[], object]] | None = None  # a path or id, and what is to be done
        soon = later(self, self._look)  # once all replies that came together are applied
        context.busy_changed.connect(soon.start)

    @property
    def is_on(self) -> bool:
        return self._wanted is not None

    def wait_for(self, model: str, then: Callable[[], object]) -> None:
        """Waits for a model, given by its path or id, in place of an earlier one."""
        self._wanted = model, then

    @Slot()
    def end(self) -> None:
        self._wanted = None
        self.ended.emit()

    @Slot()
    def _look(self) -> None:
        if self._wanted is None:
            return
        model, then = self._wanted
        if self._context.slot.present != model:
            self.end()
        elif not self._context.reason_to_wait():
            self.end()
            then()


class Busy(Protocol):
    """A component that may use the engine while others wait."""

    def reason_to_wait(self) -> str:
        """Returns a sentence about running work; empty if there is none."""

    def stop(self) -> None:
        """Stops the work within one denoising step."""


class Navigator(Protocol):
    """Brings a page to the front, and there shows what is asked for. The window is one."""

    def show_page(self, page: str) -> None:
        """Shows a page, by its name."""

    def inspect(self, run: Recording | Path, place: int = -1) -> None:
        """Opens a run in the inspector at a frame, -1 for its first step; one that grows at its last."""

    def compare(self, run: Recording, other: Recording) -> None:
        """Opens a run in the inspector next to another."""

    def export(self, run: Recording) -> None:
        """Opens the dialog that exports a run to a file."""

    def start_guide(self) -> None:
        """Begins the guided minute, in the inspector."""

    def start_race(self, prompt: str, models: Sequence[ModelChoice]) -> None:
        """Opens the Race page, and lets two to four models answer a prompt there."""


class AppContext(QObject):
    """One engine with one model at a time, one session, one set of settings. Must be closed before it is destroyed.

    Args:
        seed: the fixed seed of this session; None keeps the user's own setting.
        remote: API keys of other machines, and permission to connect to them.
    """

    navigator: Navigator  # set by the window
    busy_changed = Signal()  # ``reason_to_wait`` may have changed, load progress included
    settings_changed = Signal()  # ``values`` have changed
    offline_changed = Signal()
    server_chosen = Signal()  # a preference of the local server has changed
    said = Signal(str, str)  # an error in a sentence, and details
    done = Signal(str, str, object)  # a sentence about finished work; the title of a further action; the action

    def __init__(
        self,
        backend: EngineLink,
        settings: QSettings,
        library: Library,
        folders: Folders,
        seed: int | None = None,
        remote: RemoteAccess | None = None,
    ) -> None:
        super().__init__()
        self.backend, self.settings, self.library, self.folders = backend, settings, library, folders
        hint = QStyle.StyleHint.SH_Widget_Animation_Duration
        self._reduces_motion = QApplication.style().styleHint(hint) == 0  # the desktop asks for no animations
        self.values = store.read_values(settings, self._reduces_motion)
        self.preferences = store.read_preferences(settings)
        self.remote = remote or RemoteAccess()
        self.remote.is_offline = self.preferences.offline
        self._given_seed = seed
        if seed is not None:
            self.values.seed = seed
        self.machine: Callable[[], Machine] = functools.cache(look)  # slow: not for a GUI thread
        self.slot = ModelSlot(backend)
        self._busy: list[Busy] = []
        self._endings = contextlib.ExitStack()  # last to first; each is called even if another fails
        self._set_pace()
        backend.threads = self.preferences.threads
        self.tools = Toolbox(folders.data, is_offline=self.preferences.offline)
        self.at_end(self.tools.close)
        self.session = Session(library, backend, self.values, self.tools)
        self.register_busy(self.session)
        self.at_end(self.session.close)
        self.at_end(backend.shutdown)
        self.at_end(self.stop)
        self.server = ServerLink(backend.scheduler)
        self.at_end(self.server.close)
        self.session.failed.connect(self.say)
        self.session.ended.connect(self.busy_changed)
        self.slot.changed.connect(self.session.stop_calls)
        self.slot.changed.connect(self._model_changed)
        self.slot.progressed.connect(self.busy_changed)
        self.slot.failed.connect(self.say)
        backend.pacing.noted.connect(self._note)
        backend.pacing.delivered.connect(self.busy_changed)

    @Slot(str, str)
    def say(self, message: str, details: str = "") -> None:
        """Shows the user an error."""
        self.said.emit(message, details)

    @Slot(str)
    def confirm_export(self, path: str) -> None:
        """Reports a written file to the user, and offers to show its folder."""
        folder = QUrl.fromLocalFile(str(Path(path).absolute().parent))
        said = tr("Exported {name}", name=Path(path).name)
        self.done.emit(said, tr("Show"), lambda: QDesktopServices.openUrl(folder))

    def at_end(self, ending: Callable[[], object]) -> None:
        """Registers a call for every end of the app, also after a failure; the latest is called first."""
        self._endings.callback(ending)

    def close(self) -> None:
        """Stops the current work, ends every thread, and saves. May be called again."""
        self._endings.close()

    @property
    def model(self) -> LoadedModel | None:
        return self.slot.model

    @property
    def loading(self) -> Loading | None:
        """The model that is being loaded; None if none is."""
        return self.slot.loading

    @Slot(str)
    def load(self, path_or_id: str = SMALL, adapter: str | None = None) -> None:
        """Loads a model as ``ModelSlot.load`` does, unless it is the one that the local server offers."""
        if self.server.is_own(path_or_id):
            self.say(tr("This is the address of Safelight's own server. Choose its model in the list instead."))
        else:
            self.slot.load(path_or_id, adapter)

    @Slot()
    def _model_changed(self) -> None:
        model = self.model
        self.values.decoders = () if model is None else model.decoders[: 1 if model.parts else None]
        self.busy_changed.emit()

    @Slot(object)
    def _note(self, reply: ServiceReply) -> None:
        if isinstance(reply, TraceNotKept):
            self.say(tr(reply.message))

    def register_busy(self, busy: Busy) -> None:
        """Includes a component in ``reason_to_wait`` and ``stop``."""
        self._busy.append(busy)

    @property
    def is_busy(self) -> bool:
        return any(busy.reason_to_wait() for busy in self._busy)

    def reason_to_wait(self) -> str:
        """Returns the reason why no request can be made now, in a sentence; empty if one can."""
        return next(filter(None, (busy.reason_to_wait() for busy in self._busy)), "") or self.slot.reason_to_wait()

    @Slot()
    def stop(self) -> None:
        """Stops the current work within one denoising step."""
        for busy in self._busy:
            if busy.reason_to_wait():
                busy.stop()

    @Slot()
    def apply_values(self) -> None:
        """Stores and applies ``values`` after a change."""
        keep_seed = self._given_seed is not None and self.values.seed == self._given_seed
        store.write_values(self.settings, self.values, self._reduces_motion, keep_seed=keep_seed)
        self._set_pace()
        self.settings_changed.emit()
        self.busy_changed.emit()

    def _set_pace(self) -> None:
        motion.set_reduced(self.values.reduced_motion)
        self.backend.pacing.set_speed(self.values.speed, is_smooth=not self.values.reduced_motion)

    @Slot(str)
    def choose_pace(self, pace: str) -> None:
        """Shows runs at this value of the declared setting from now on."""
        self.values.pace = pace
        self.apply_values()

    def set_offline(self, offline: bool) -> None:
        """Allows or refuses all use of the network; a model on another machine is unloaded."""
        self.preferences.offline = self.remote.is_offline = offline
        store.write_preference(self.settings, self.preferences, "offline")
        self.server.apply(self.preferences)
        self.tools.set_offline(offline)
        self.offline_changed.emit()
        used = self.slot.present
        if used and not self.remote.reaches(used):
            title = self.slot.title_of(used)
            self.slot.unload()
            self.say(tr("Offline is on: {model} runs on another machine, so it was unloaded.", model=title))

    @Slot(str, object)
    def choose_server(self, name: str, value: object) -> None:
        """Sets a preference of the local server by its name, and applies it at once."""
        setattr(self.preferences, name, value)
        store.write_preference(self.settings, self.preferences, name)
        self.server.apply(self.preferences)
        self.server_chosen.emit()

    @Slot()
    def serve(self) -> None:
        """Starts the local server, if that is the user's choice."""
        self.server.apply(self.preferences)

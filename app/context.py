"""The context of every page: the model, the engine, the settings, the session, and signals that connect the parts.

Pages and views subscribe to these signals, and do not import the window.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from PySide6.QtCore import QObject, QSettings, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QStyle, QWidget

from app.bridge.engine_thread import EngineLink
from app.bridge.remote_access import RemoteAccess, title_of_path
from app.bridge.server_link import ServerLink
from app.design import motion
from app.design.notice import Notice
from app.library import Library
from app.session.session import Session
from app.settings import store
from app.system.folders import Folders
from app.system.i18n import tr
from app.tools.toolbox import Toolbox
from engine import Recording, catalog
from engine.catalog import SMALL
from engine.memory.machine import Machine, look
from engine.service import (
    AdapterChanged,
    LoadedModel,
    LoadFailed,
    LoadProgress,
    ModelLoaded,
    ModelUnloaded,
    ServiceReply,
    TraceNotKept,
)

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
        self._made: T_co | None = None

    def __call__(self) -> T_co:
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def made(self) -> T_co | None:
        """The value; None before its first use."""
        return self._made


class Busy(Protocol):
    """A component that may use the engine while others wait."""

    def reason_to_wait(self) -> str:
        """Returns a sentence about running work; empty if there is none."""

    def stop(self) -> None:
        """Stops the work within one denoising step."""


@dataclasses.dataclass(frozen=True)
class ModelChoice:
    """A model (the id of an embedded one, or a folder) with an adapter or without."""

    path_or_id: str
    adapter: str | None = None


@dataclasses.dataclass(frozen=True)
class Loading:
    """A model that is being loaded; ``share`` of the stage is done, 0 to 1, or 0 if it is not known."""

    path_or_id: str
    title: str
    stage: str
    share: float = 0.0

    @property
    def text(self) -> str:
        """The progress, in a sentence."""
        percent = f", {self.share:.0%}" if self.share else ""
        return tr(
            "Loading {model}: {stage}", model=self.title, stage=f"{self.stage[:1].lower()}{self.stage[1:]}{percent}"
        )


def platform_reduces_motion() -> bool:
    """Returns True if the desktop asks for no animations."""
    return QApplication.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) == 0


class AppContext(QObject):
    """One engine with one model at a time, one session, one set of settings. Must be closed before it is destroyed.

    Args:
        seed: the fixed seed of this session; None keeps the user's own setting.
        remote: API keys of other machines, and permission to connect to them.
    """

    arrived = Signal(object)  # list[ServiceReply], already applied to the context
    model_changed = Signal()  # a model was loaded, is being loaded, or was unloaded
    busy_changed = Signal()  # ``reason_to_wait`` may have changed, load progress included
    settings_changed = Signal()  # ``values`` have changed
    offline_changed = Signal()
    server_chosen = Signal()  # a preference of the local server has changed
    models_changed = Signal()  # ``models`` has changed
    said = Signal(str, str)  # an error in a sentence, and details
    done = Signal(str, str, object)  # a sentence about finished work; the title of a further action; the action
    page_asked = Signal(str)
    inspect_asked = Signal(object, bool, int)  # a Recording, or the Path of one; True while it runs; a frame
    compare_asked = Signal(object, object)  # two Recordings
    export_asked = Signal(object)  # a Recording
    guide_asked = Signal()
    race_asked = Signal(str, object)  # a prompt, and the ModelChoices that answer it

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
        self._reduces_motion = platform_reduces_motion()
        self.values = store.read_values(settings, self._reduces_motion)
        self.preferences = store.read_preferences(settings)
        self.remote = remote or RemoteAccess()
        self.remote.is_offline = self.preferences.offline
        self._given_seed = seed
        if seed is not None:
            self.values.seed = seed
        self.machine: Callable[[], Machine] = functools.cache(look)  # slow: not for a GUI thread
        self.model: LoadedModel | None = None
        self.loading: Loading | None = None
        self._before: ModelChoice | None = None  # the model to return to if the one that is being loaded fails
        self._unloads = 0  # requested and not done yet
        self.models: Sequence[tuple[str, str]] = ()  # models that can be loaded: paths or ids, and titles
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
        self.backend.pacing.computed.connect(self.busy_changed)
        backend.pacing.released.connect(self.take)

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

    @Slot(str)
    def show_page(self, page: str) -> None:
        """Brings a page to the front, by its name."""
        self.page_asked.emit(page)

    def inspect(self, run: Recording | Path, *, is_live: bool = False, place: int = -1) -> None:
        """Opens a run in the inspector at a frame, -1 for its first step; ``is_live`` if it is still running."""
        self.inspect_asked.emit(run, is_live, place)

    def compare(self, run: Recording, other: Recording) -> None:
        """Opens a run in the inspector next to another."""
        self.compare_asked.emit(run, other)

    def export(self, run: Recording) -> None:
        """Opens the dialog that exports a run to a file."""
        self.export_asked.emit(run)

    def guide(self) -> None:
        """Begins the guided minute, in the inspector."""
        self.guide_asked.emit()

    def race(self, prompt: str, models: Sequence[ModelChoice]) -> None:
        """Opens the Race page, and lets two to four models answer a prompt there."""
        self.race_asked.emit(prompt, models)

    def offer_models(self, models: Sequence[tuple[str, str]]) -> None:
        """Sets the models that can be loaded in addition to the embedded ones: folders, with titles."""
        self.models = models
        self.models_changed.emit()

    def at_end(self, ending: Callable[[], object]) -> None:
        """Registers a call for every end of the app, also after a failure; the latest is called first."""
        self._endings.callback(ending)

    def close(self) -> None:
        """Stops the current work, ends every thread, and saves. May be called again."""
        self._endings.close()

    @property
    def choice(self) -> ModelChoice | None:
        """The loaded model with its adapter."""
        model = self.model
        return None if model is None else ModelChoice(model.path_or_id, model.adapter)

    @property
    def present(self) -> str:
        """The path or id of the model that is loaded or being loaded; empty if there is none."""
        model = self.loading or self.model
        return "" if model is None else model.path_or_id

    @Slot(str)
    def load(self, path_or_id: str = SMALL, adapter: str | None = None) -> None:
        """Loads a model in the engine's thread and stops the current answer.

        If it fails, the previous model returns; without one, ``catalog.SMALL`` is loaded.

        Args:
            adapter: an adapter for it: a folder, or the id of an embedded one.
        """
        if self.server.is_own(path_or_id):
            self.say(tr("This is the address of Safelight's own server. Choose its model in the list instead."))
        else:
            self.backend.load(path_or_id, self.expect(path_or_id).title, adapter)

    def expect(self, path_or_id: str) -> Loading:
        """Announces that a model is going to be loaded."""
        self._before = self.choice or self._before
        self.loading = Loading(path_or_id, self.title_of(path_or_id), tr("Starting"))
        self._change_model(None)
        return self.loading

    def title_of(self, path_or_id: str) -> str:
        """Returns a model's title, as it is listed."""
        return catalog.title(path_or_id) or dict(self.models).get(path_or_id) or title_of_path(path_or_id)

    @Slot()
    def unload(self) -> None:
        """Unloads the model and frees its memory; while a model is being loaded, returns to the previous one."""
        before, self._before = self._before, None
        if self.loading is not None and before is not None:
            self.load(before.path_or_id, before.adapter)
            return
        self.loading = None
        self._unloads += 1
        self.backend.unload()

    def _load_failed(self, failed: LoadFailed, loading: Loading) -> None:
        """Reports a failed load, and returns to the previous model."""
        held, before = failed.model, self._before
        if held is not None and ModelChoice(held.path_or_id, held.adapter) != before:
            held = None  # the engine has loaded it meanwhile, and nobody has seen it
        if before is None or before.path_or_id == failed.path_or_id:
            before = ModelChoice(SMALL)
        returns = held is None and before.path_or_id != failed.path_or_id
        said = tr("{model} cannot be loaded: {why}.", model=loading.title, why=tr(failed.message).rstrip("."))
        if held is not None:
            said = f"{said} {tr('{model} stays loaded.', model=held.title)}"
        elif returns:
            back = tr("{model} is loaded instead.", model=self.title_of(before.path_or_id))
            said = f"{said} {tr('The small models are loaded instead.') if before.path_or_id == SMALL else back}"
        self.say(said, failed.details)
        self.loading = None
        if returns:
            self._before = None
            self.load(before.path_or_id, before.adapter)
        else:
            self._change_model(held)

    def _change_model(self, model: LoadedModel | None) -> None:
        self.model = model
        self.values.decoders = () if model is None else model.decoders[: 1 if model.parts else None]
        self.model_changed.emit()
        self.busy_changed.emit()

    @Slot(object)
    def take(self, replies: list[ServiceReply]) -> None:
        """Applies all pending replies, then notifies the views once."""
        for reply in replies:
            self._fold(reply)
        self.session.take(replies)
        self.arrived.emit(replies)
        self.busy_changed.emit()

    def _fold(self, reply: ServiceReply) -> None:
        """Applies one reply. Replies about a model other than the one requested last are ignored."""
        wanted = "" if self.loading is None else self.loading.path_or_id
        if self._unloads and isinstance(reply, ModelLoaded | LoadFailed):
            return  # belongs to a load that was requested before an unload
        match reply:
            case LoadProgress(stage, share) if self.loading is not None:
                self.loading = dataclasses.replace(self.loading, stage=tr(stage), share=share)
            case ModelLoaded(model):
                if model.path_or_id == wanted or (self.choice and self.choice.path_or_id == model.path_or_id):
                    self.loading = None
                    self._change_model(model)
            case LoadFailed(path_or_id) if path_or_id == wanted and self.loading is not None:
                self._load_failed(reply, self.loading)
            case ModelUnloaded():
                self._unloads = max(0, self._unloads - 1)
                if self.loading is None:
                    self._change_model(None)
            case AdapterChanged(_, _, text, details) if text:
                self.say(tr(text), details)
            case AdapterChanged(model=LoadedModel() as model) if self.model is not None:
                self.model = model
            case TraceNotKept(text):
                self.say(tr(text))

    def register_busy(self, busy: Busy) -> None:
        """Includes a component in ``reason_to_wait`` and ``stop``."""
        self._busy.append(busy)

    @property
    def is_busy(self) -> bool:
        """True if the engine is in use."""
        return any(busy.reason_to_wait() for busy in self._busy)

    def reason_to_wait(self) -> str:
        """Returns the reason why no request can be made now, in a sentence; empty if one can."""
        reason = next(filter(None, (busy.reason_to_wait() for busy in self._busy)), "")
        if reason:
            return reason
        if self.model is None:
            return self.loading.text if self.loading is not None else tr("No model is loaded. Choose one above")
        return ""

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
        used = self.loading.path_or_id if self.loading is not None else self.model and self.model.path_or_id
        if used and not self.remote.reaches(used):
            title = self.title_of(used)
            self.unload()
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

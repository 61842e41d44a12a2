"""The place of the one loaded model: empty, loading or ready. Knows no widgets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.engine_thread import EngineLink, Handle
from app.bridge.remote_access import title_of_path
from app.system.i18n import tr
from engine import catalog
from engine.catalog import SMALL
from engine.service import (
    AdapterChanged,
    LoadedModel,
    LoadFailed,
    LoadProgress,
    ModelLoaded,
    ModelUnloaded,
    ServiceReply,
)


@dataclass(frozen=True)
class ModelChoice:
    """A model (the id of an embedded one, or a folder) with an adapter or without."""

    path_or_id: str
    adapter: str | None = None


@dataclass(frozen=True)
class Empty:
    """No model is loaded."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Ready:
    model: LoadedModel


class ModelSlot(QObject):
    """Loads one model at a time. What comes of a load that another has replaced is not looked at."""

    changed = Signal()  # a model is loaded, is being loaded, is gone, or has another adapter
    progressed = Signal()  # of a load
    failed = Signal(str, str)  # why something did not work, in a sentence, and details
    models_changed = Signal()  # ``models`` has changed

    def __init__(self, link: EngineLink) -> None:
        super().__init__()
        self.state: Empty | Loading | Ready = Empty()
        self.models: Sequence[tuple[str, str]] = ()  # that can be loaded: paths or ids, and titles
        self._link = link
        self._before: ModelChoice | None = None  # the model to return to if the one that is being loaded fails
        self._asked: Handle | None = None  # the newest load or unload
        self._adapting: set[Handle] = set()  # changes of the adapter without a reply so far

    @property
    def model(self) -> LoadedModel | None:
        return self.state.model if isinstance(self.state, Ready) else None

    @property
    def loading(self) -> Loading | None:
        return self.state if isinstance(self.state, Loading) else None

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

    def reason_to_wait(self) -> str:
        """Returns a sentence if no model is loaded; empty if one is."""
        if isinstance(self.state, Loading):
            return self.state.text
        return "" if self.model is not None else tr("No model is loaded. Choose one above")

    def offer(self, models: Sequence[tuple[str, str]]) -> None:
        """Sets the models that can be loaded in addition to the embedded ones: folders, with titles."""
        self.models = models
        self.models_changed.emit()

    def title_of(self, path_or_id: str) -> str:
        """Returns a model's title, as it is listed."""
        return catalog.title(path_or_id) or dict(self.models).get(path_or_id) or title_of_path(path_or_id)

    def load(self, path_or_id: str = SMALL, adapter: str | None = None) -> None:
        """Loads a model in the engine's thread and stops the current answer.

        If it fails, the previous model returns; without one, ``catalog.SMALL`` is loaded.

        Args:
            adapter: an adapter for it: a folder, or the id of an embedded one.
        """
        loading = self.expect(path_or_id)
        self._asked = None  # what comes of an earlier load is dropped
        self._asked = self._link.load(path_or_id, loading.title, adapter)
        self._asked.replied.connect(self._apply)

    def expect(self, path_or_id: str) -> Loading:
        """Announces that a model is going to be loaded."""
        self._before = self.choice or self._before
        loading = Loading(path_or_id, self.title_of(path_or_id), tr("Starting"))
        self._become(loading)
        return loading

    def unload(self) -> None:
        """Unloads the model and frees its memory; while a model is being loaded, returns to the previous one."""
        before, self._before = self._before, None
        if self.loading is not None and before is not None:
            self.load(before.path_or_id, before.adapter)
            return
        if self.loading is not None:
            self.state = Empty()  # reported once it is done
        self._asked = None  # what comes of a load is dropped
        self._asked = self._link.unload()
        self._asked.replied.connect(self._apply)

    def set_adapter(self, path_or_id: str | None) -> Handle:
        """Gives the model another adapter, or none, after the current run."""
        handle = self._link.set_adapter(path_or_id)
        self._adapting.add(handle)
        handle.replied.connect(self._adapted)
        return handle

    def _become(self, state: Empty | Loading | Ready) -> None:
        self.state = state
        self.changed.emit()

    @Slot(object)
    def _adapted(self, replies: list[ServiceReply]) -> None:
        self._adapting.discard(cast(Handle, self.sender()))
        self._apply(replies)

    @Slot(object)
    def _apply(self, replies: list[ServiceReply]) -> None:
        for reply in replies:
            match reply, self.state:
                case LoadProgress(stage, share), Loading() as loading:
                    self.state = dataclasses.replace(loading, stage=tr(stage), share=share)
                    self.progressed.emit()
                case ModelLoaded(model), _:
                    self._become(Ready(model))
                case LoadFailed(), Loading() as loading:
                    self._load_failed(reply, loading)
                case ModelUnloaded(), Empty() | Ready():
                    self._become(Empty())
                case AdapterChanged(_, _, text, details), _ if text:
                    self.failed.emit(tr(text), details)
                case AdapterChanged(model=LoadedModel() as model), Ready():
                    self._become(Ready(model))

    def _load_failed(self, failed: LoadFailed, loading: Loading) -> None:
        """Reports a failed load, and returns to the previous model."""
        kept, before = failed.model, self._before
        if kept is not None and ModelChoice(kept.path_or_id, kept.adapter) != before:
            kept = None  # the engine has loaded it meanwhile, and nobody has seen it
        if before is None or before.path_or_id == failed.path_or_id:
            before = ModelChoice(SMALL)
        returns = kept is None and before.path_or_id != failed.path_or_id
        said = tr("{model} cannot be loaded: {why}.", model=loading.title, why=tr(failed.message).rstrip("."))
        if kept is not None:
            said = f"{said} {tr('{model} stays loaded.', model=kept.title)}"
        elif returns:
            back = tr("{model} is loaded instead.", model=self.title_of(before.path_or_id))
            said = f"{said} {tr('The small models are loaded instead.') if before.path_or_id == SMALL else back}"
        self.failed.emit(said, failed.details)
        if kept is not None:
            self._become(Ready(kept))
        elif returns:
            self._before = None
            self.load(before.path_or_id, before.adapter)
        else:
            self._become(Empty())

"""Loads, adapts and holds one model on this machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.config import BLOCK_DIFFUSION, GenerationConfig
from engine.decoding.names import FORMATTING, require_diffusion
from engine.errors import SafelightError
from engine.events import Influence
from engine.service.cache_pool import CachePool
from engine.service.capabilities import Capabilities
from engine.service.deciding import Deciding
from engine.service.description import count_tokens, deciding_of, describe
from engine.service.failures import explained
from engine.service.recorder import Recorder
from engine.service.replies import (
    AdapterChanged,
    InfluenceMeasured,
    LoadFailed,
    LoadProgress,
    LoadReply,
    LoadStarted,
    MemoryUsed,
    ModelLoaded,
    ModelUnloaded,
)
from engine.service.requests import AdapterRequest, InfluenceRequest, LoadRequest, RunRequest
from engine.text.message import Message, image_digests
from engine.trace.identity import identify_model

if TYPE_CHECKING:
    from engine.models.model import Model

LEAST_PROGRESS = 0.01  # share of a load between two reports
CAPABILITIES = Capabilities(
    steps=True, forks=True, infill=True, influence=True, adapters=True, structured=True, parallel_runs=4
)


class _AbandonedError(Exception):
    """Raised inside a load that was cancelled."""


class LocalModel:
    """The part of ``LocalBackend`` that holds a model, its adapter and the idle caches.

    The methods that call the engine are at the end of the class. Each imports torch when it is first called, so that a
    window can be painted before that; tests override them.

    Args:
        traces: the folder where runs are stored; None stores none.
    """

    def __init__(self, traces: Path | None = None) -> None:
        self._model: Model | None = None
        self._deciding: Deciding | None = None  # None: the model cannot decide
        self._capabilities = CAPABILITIES
        self._reads_system = True  # the model's template
        self._caches = CachePool()
        self._chosen: str | None = None  # the requested adapter
        self._present: str | None = None  # the adapter on the model now: a run may have one of its own
        self._recorder = Recorder(traces)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def load(self, request: LoadRequest, report: Callable[[LoadReply], None]) -> None:
        if request.cancel.is_set():
            return
        report(LoadStarted(request.title))
        report(LoadProgress("Starting the engine", 0.0))
        reported = 0.0

        def progress(share: float) -> None:
            nonlocal reported
            if request.cancel.is_set():
                raise _AbandonedError
            if share - reported >= LEAST_PROGRESS or share >= 1.0:
                reported = share
                report(LoadProgress("Reading the weights", share))

        try:
            if self._model is not None:
                self.check_model(request.path_or_id)  # before this one is dropped
            self._forget_model()
            model = self.load_model(request.path_or_id, progress, request.threads)
            identity = identify_model(model, request.path_or_id, request.title)
            self._deciding = _deciding(model)
            self._capabilities = _capabilities(model, decides=self._deciding is not None)
            loaded = describe(model, request, identity, self.capabilities)
        except _AbandonedError:
            return
        except Exception as error:  # the app must survive whatever the libraries raise
            report(LoadFailed(request.path_or_id, *explained(error), kept=self._model is not None))
        else:
            self._model, self._reads_system = model, loaded.reads_system
            self._recorder.model_loaded(identity)
            for used in self._memory(model):
                report(used)
            report(ModelLoaded(loaded))
            if request.adapter is not None:
                report(self.set_adapter(AdapterRequest(request.adapter)))

    def unload(self) -> ModelUnloaded:
        self._forget_model()
        return ModelUnloaded()

    def _forget_model(self) -> None:
        self._model = self._deciding = self._chosen = self._present = None
        self._capabilities = CAPABILITIES
        self._caches.clear()

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        path = request.path_or_id
        try:
            self._put_adapter(self._require_model(), path)
        except Exception as error:  # as in ``load``
            return AdapterChanged(path, "", *explained(error))
        self._chosen = path
        adapter = self._require_model().adapter
        return AdapterChanged(path, "" if adapter is None else adapter.title)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return count_tokens(self._require_model(), messages)

    def _require_model(self) -> Model:
        if self._model is None:
            raise SafelightError("no model is loaded; choose one first")
        return self._model

    @staticmethod
    def _memory(model: Model) -> Iterator[MemoryUsed]:
        found = model.device_memory()
        if found is not None:
            yield MemoryUsed(*found)

    def _adapter_of(self, request: RunRequest) -> str | None:
        """Returns the adapter of a run, a folder or an id; None: none."""
        return self._chosen if request.adapter is None else request.adapter or None

    def _put_adapter(self, model: Model, path: str | None) -> None:
        """Attaches an adapter to the model, or detaches it; only while no run is active."""
        if path == self._present:
            return
        self._caches.clear()  # they were filled with another adapter, or without
        if path is None:
            self.unload_adapter(model)
        else:
            self.load_adapter(model, path)
        self._present = path
        self._recorder.adapter_changed(model.adapter)

    def measure(self, request: InfluenceRequest) -> InfluenceMeasured:
        try:
            return InfluenceMeasured(request, self._influence(self._require_model(), request))
        except SafelightError as error:
            return InfluenceMeasured(request, None, str(error))
        except Exception as error:  # as in ``load``
            self._caches.clear()
            return InfluenceMeasured(request, None, explained(error)[0])

    def _influence(self, model: Model, request: InfluenceRequest) -> Influence:
        from engine.decoding.influence import influence  # torch

        self._put_adapter(model, self._chosen)
        header = request.trace.header
        require_diffusion(header.config, model.family.decoders, model.family.default_decoder, "influence")
        ids: Sequence[int] = header.prompt_ids or model.chat_ids(header.messages, enable_thinking=header.think)
        if image_digests(header.messages):
            ids = model.with_images(ids, header.messages, request.trace.pictures, header.config.image_tokens)
        cache = self._caches.take(model, ids)
        found = influence(
            model,
            ids,
            [event.tokens for event in request.trace.committed if event.block_index < request.block],
            request.canvas,
            request.position,
            request.token,
            cache=cache,
            temperature=request.temperature,
        )
        self._caches.give_back(cache)
        return found

    # ---------------------------------------------------------------- the engine; each imports torch

    def check_model(self, path_or_id: str) -> None:
        from engine.models.model import check_model  # torch

        check_model(path_or_id)

    def load_model(self, path_or_id: str, progress: Callable[[float], None], threads: int) -> Model:
        from engine.models.model import load_model  # torch

        return load_model(path_or_id, progress=progress, threads=threads)

    def spare_bytes(self, model: Model) -> int:
        return model.spare_bytes()

    def run_bytes(self, model: Model, prompt: int, config: GenerationConfig, running: int) -> int:
        return model.run_bytes(prompt, config, running)

    def load_adapter(self, model: Model, path_or_id: str) -> None:
        from engine.models.adapting import load_adapter  # torch

        load_adapter(model, path_or_id)

    def unload_adapter(self, model: Model) -> None:
        from engine.models.adapting import unload_adapter  # torch

        unload_adapter(model)


def _deciding(model: Model) -> Deciding | None:
    """Returns the parts of a model that decisions need; None if it cannot decide."""
    try:
        return deciding_of(model)
    except SafelightError:
        return None


def _capabilities(model: Model, *, decides: bool) -> Capabilities:
    """Returns a model's capabilities; forks, infills and influence need block diffusion."""
    decoders = model.family.decoders
    can = dataclasses.replace(CAPABILITIES, decisions=decides, images=model.vision is not None)
    can = dataclasses.replace(can, structured=any(name in FORMATTING for name in decoders))
    return can if BLOCK_DIFFUSION in decoders else dataclasses.replace(can, forks=False, infill=False, influence=False)

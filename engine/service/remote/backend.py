"""Runs models of other machines, and records every run here."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.catalog import SMALL
from engine.errors import SafelightError, Sentence
from engine.pictures import BLIND
from engine.service.backend import RunSteps
from engine.service.recorder import Recorder
from engine.service.remote.address import RemoteAddress
from engine.service.remote.calls import PATIENCE, Calls, RemotePatience, anywhere
from engine.service.remote.discovery import RemoteModel, models_of
from engine.service.remote.foreign import ForeignModel
from engine.service.remote.problems import RemoteError
from engine.service.remote.run import SLICE_SECONDS, BackgroundStream, Dialect, RemoteRun, RequestCancelledError
from engine.service.remote.safelight import SafelightModel
from engine.service.replies import (
    AdapterChanged,
    Capabilities,
    InfluenceMeasured,
    LoadFailed,
    LoadProgress,
    LoadReply,
    LoadStarted,
    ModelLoaded,
    ModelUnloaded,
    PassWanted,
    RunEnded,
    explained,
)
from engine.service.requests import AdapterRequest, InfluenceRequest, LoadRequest, RunRequest
from engine.text.tokenizer import Tokenizer


def no_key(_origin: str) -> None:
    """Returns None for every server."""


class RemoteBackend:
    """A ``Backend`` for load paths that are addresses (``address``). A run's passes wait for the server's data.

    Args:
        traces: the folder where runs are stored; None stores none.
        key_of: returns the key to the server at an origin ("http://host:port"), or None; called at each load.
        is_allowed: True if a host may be reached; called before each request, in any thread.
    """

    def __init__(
        self,
        traces: Path | None = None,
        key_of: Callable[[str], str | None] = no_key,
        is_allowed: Callable[[str], bool] = anywhere,
        patience: RemotePatience = PATIENCE,
    ) -> None:
        self._key_of, self._is_allowed, self._patience = key_of, is_allowed, patience
        self._recorder = Recorder(traces)
        self._model: Dialect | None = None
        self._tokenizers: dict[str, Tokenizer] = {}  # by the fingerprint of their model
        self._news = threading.Condition()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities() if self._model is None else self._model.loaded.capabilities

    def load(self, request: LoadRequest, report: Callable[[LoadReply], None]) -> None:
        if request.cancel.is_set():
            return
        report(LoadStarted(request.title))
        report(LoadProgress("Asking the server", 0.0))
        try:
            model = self._found(request)
        except RequestCancelledError:
            return
        except Exception as error:  # whatever the libraries raise
            report(LoadFailed(request.path_or_id, *_explained(error), kept=self._model is not None))
            return
        if request.cancel.is_set():
            return
        self._model = model
        report(ModelLoaded(model.loaded))
        if request.adapter is not None and request.adapter != model.loaded.adapter:
            report(self.set_adapter(AdapterRequest(request.adapter)))

    def _found(self, request: LoadRequest) -> Dialect:
        """Returns the model at an address; without a name in it, the server's only one. The server must list it, unless
        servers of its kind have unlisted models."""
        address = RemoteAddress.parse(request.path_or_id)
        calls = Calls(address, self._key_of(address.origin), self._is_allowed, self._patience)

        def check() -> None:
            if request.cancel.is_set():
                raise RequestCancelledError

        listed = models_of(calls, check)
        if not address.model:
            address = _only(listed, address)
            calls = dataclasses.replace(calls, address=address)
        found = next((model for model in listed if model.id == address.model), None)
        if found is None:
            if listed and listed[0].kind != "openai":  # other kinds serve models that they do not list
                raise RemoteError(
                    "The server at {where} has no model {model}; it has {names}.",
                    where=address.origin,
                    model=address.model,
                    names=_names(listed),
                )
            found = RemoteModel(address, "openai")
        if found.kind == "safelight":
            return SafelightModel(calls, request.title, self._tokenizers, check)
        return ForeignModel(calls, found, request.title)

    def unload(self) -> ModelUnloaded:
        self._model = None
        return ModelUnloaded()

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        model = None if self._model is None else self._model.loaded
        if model is not None and request.path_or_id == model.adapter:
            return AdapterChanged(request.path_or_id, model.adapter_title)
        message = Sentence("The server chooses its adapters; choose one of its models instead.")
        return AdapterChanged(request.path_or_id, message=message)

    def measure(self, request: InfluenceRequest) -> InfluenceMeasured:
        return InfluenceMeasured(request, None, "Influence is measured where the model runs.")

    def sibling(self) -> RemoteBackend:
        return RemoteBackend(self._recorder.folder, self._key_of, self._is_allowed, self._patience)

    def _require_model(self) -> Dialect:
        if self._model is None:
            raise SafelightError("no model is loaded; choose one first")
        return self._model

    def admits(self, _request: RunRequest, _running: Sequence[RunRequest]) -> bool:
        return True

    def begin(self, request: RunRequest) -> RunSteps:
        if request.cancel.is_set():
            yield RunEnded(request.run_id)
            return
        message = details = ""
        run: RemoteRun | None = None
        try:
            if request.pictures and not self.capabilities.images:
                raise SafelightError(BLIND)
            run = RemoteRun(request, self._require_model(), self._recorder, self._news)
            yield from run.steps()
        except GeneratorExit:
            if run is not None:
                run.end("The run was cancelled.")
            raise
        except Exception as error:  # as in ``load``
            message, details = _explained(error)
        if run is not None:
            run.end(message)
        yield from self._recorder.take_warnings()
        yield RunEnded(request.run_id, message, details)

    def perform(self, passes: Sequence[PassWanted]) -> None:
        streams = [wanted.what for wanted in passes if isinstance(wanted.what, BackgroundStream)]
        with self._news:
            self._news.wait_for(lambda: any(stream.has_news for stream in streams), SLICE_SECONDS)
        for wanted in passes:
            wanted.is_done = True


def _only(listed: Sequence[RemoteModel], address: RemoteAddress) -> RemoteAddress:
    """Returns the address of the only model that a server lists, or of all small ones together.

    Raises:
        RemoteError: it lists none, or several.
    """
    match listed:
        case [model]:
            return model.address
        case [model, *_] if model.id == SMALL:
            return model.address
        case []:
            raise RemoteError("The server at {where} lists no model. Load one there.", where=address.origin)
    raise RemoteError(
        "The server at {where} has several models: {names}. Add one to the address, as in {example}.",
        where=address.origin,
        names=_names(listed),
        example=str(listed[0].address),
    )


def _names(listed: Sequence[RemoteModel]) -> str:
    return ", ".join(model.id for model in listed[:5]) + ("" if len(listed) <= 5 else ", …")


def _explained(error: Exception) -> tuple[str, str]:
    """Returns as ``explained``, with a sentence that can be translated."""
    return (error.sentence, "") if isinstance(error, RemoteError) else explained(error)

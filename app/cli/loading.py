"""Loads the model of the options. Prints no results."""

from __future__ import annotations

import argparse
import dataclasses
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import terminal
from app.cli.options import KEY_VARIABLE
from engine import ADAPTERS, SafelightError, catalog
from engine.catalog import SMALL
from engine.errors import Sentence
from engine.model_files import model_title
from engine.service import (
    Backend,
    BackendRouter,
    Capabilities,
    LoadedModel,
    LoadOutcome,
    LoadRequest,
    LocalBackend,
    Runner,
    Scheduler,
    is_remote,
)

if TYPE_CHECKING:
    from engine import Model

POLL_SECONDS = 0.1  # between checks of the flag: Windows cannot interrupt a wait without a timeout


class ChosenBackend(LocalBackend):
    """A backend that loads with the command line's options and stores no traces."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self._args = args

    @property
    def capabilities(self) -> Capabilities:
        able = super().capabilities
        parallel = getattr(self._args, "parallel", None)
        return able if parallel is None else dataclasses.replace(able, parallel_runs=parallel)

    def sibling(self) -> ChosenBackend:
        return ChosenBackend(self._args)

    def load_model(self, path_or_id: str, progress: Callable[[float], None], threads: int) -> Model:
        from engine import load_model  # imports torch

        return load_model(
            path_or_id,
            device=self._args.device,
            dtype=self._args.dtype,
            quantization=self._args.quantization,
            progress=progress,
            threads=threads,
        )


def remote_backend() -> Backend:
    """Returns the backend of remote models, with the key of the environment."""
    from engine.service.remote import RemoteBackend  # the HTTP client, which local models do not need

    return RemoteBackend(None, lambda _origin: os.environ.get(KEY_VARIABLE))


def chosen(args: argparse.Namespace, usual: str) -> str:
    """Returns the model of the options: a path, an id or an address; for the small models the ``usual`` one here."""
    bases = {adapter.id: adapter.base for adapter in ADAPTERS}
    name = catalog.present(args.model or getattr(args, "window_model", None) or SMALL)
    if args.adapter is not None and not is_remote(name):
        catalog.resolve_adapter(args.adapter)  # so that a mistyped one is rejected before a large model is loaded
    return bases.get(args.adapter, usual) if name == SMALL else name


def load_alone(args: argparse.Namespace, usual: str, stop: threading.Event) -> Runner:
    """Loads the model of the options, or the ``usual`` one, in this thread.

    Raises:
        SafelightError: it cannot be loaded.
        KeyboardInterrupt: it was stopped.
    """
    request, router = _request(args, usual), BackendRouter(ChosenBackend(args), remote_backend)
    loading = _Outlet(wants_adapter=request.adapter is not None)
    with terminal.note(f"Loading {request.path_or_id} …"):
        router.load(dataclasses.replace(request, cancel=stop), loading.put)
    if not loading.ended.is_set():
        raise KeyboardInterrupt
    return Runner(router.active, loading.loaded())


def load(args: argparse.Namespace, scheduler: Scheduler, stop: threading.Event, usual: str) -> LoadedModel | None:
    """Loads the model of the options, or the ``usual`` one, into a scheduler; None if it was stopped.

    Raises:
        SafelightError: it cannot be loaded.
    """
    request = _request(args, usual)
    loading = _Outlet(wants_adapter=request.adapter is not None)
    with terminal.note(f"Loading {request.path_or_id} …"):
        scheduler.load(request, loading)
        while not loading.ended.wait(POLL_SECONDS):
            if stop.is_set():
                scheduler.stop(request)
                return None
    return loading.loaded()


def _request(args: argparse.Namespace, usual: str) -> LoadRequest:
    name = chosen(args, usual)
    return LoadRequest(name, catalog.title(name) or model_title(Path(name)), args.threads, args.adapter)


def failure(message: str, details: str) -> Exception | None:
    """Returns the error of a reply that says why something failed; None if it says nothing."""
    if not details:
        return SafelightError(message.rstrip(".")) if message else None
    text = message.values.get("text", message) if isinstance(message, Sentence) else message
    unexpected = RuntimeError(text)
    unexpected.__cause__ = RuntimeError(details)
    return unexpected


class _Outlet(LoadOutcome):
    """An ``Outlet`` that waits until a model is loaded."""

    is_full = False

    def loaded(self) -> LoadedModel:
        """Returns the model; raises what failed."""
        if self.failure is not None:
            error = failure(self.failure.message, self.failure.details)
            assert error is not None, "a failure says why"
            raise error
        assert self.model is not None, "the load has ended"
        if self.model.is_news:
            terminal.say(self.model.device_reason)
        return self.model

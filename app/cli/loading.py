"""Loads the model of the options into a scheduler, for commands that use one. Prints no results."""

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
from engine.model_files import model_title
from engine.service import (
    AdapterChanged,
    Backend,
    Capabilities,
    LoadedModel,
    LoadFailed,
    LoadRequest,
    LocalBackend,
    ModelLoaded,
    Scheduler,
    ServiceReply,
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


def load(args: argparse.Namespace, scheduler: Scheduler, stop: threading.Event, default: str) -> LoadedModel | None:
    """Loads the model of the options, or the ``default`` one; None if it was stopped.

    Raises:
        SafelightError: it cannot be loaded.
    """
    bases = {adapter.id: adapter.base for adapter in ADAPTERS}
    name = args.model or getattr(args, "window_model", None) or bases.get(args.adapter, default)
    title = catalog.title(name) or model_title(Path(name))
    request, outlet = LoadRequest(name, title, args.threads, args.adapter), _Loading(args.adapter is not None)
    with terminal.note(f"Loading {name} …"):
        scheduler.load(request, outlet)
        while not outlet.ended.wait(POLL_SECONDS):
            if stop.is_set():
                scheduler.stop(request)
                return None
    if outlet.problem or scheduler.model is None:
        raise SafelightError(outlet.problem or f"{name} could not be loaded")
    if scheduler.model.is_news:
        terminal.say(scheduler.model.device_reason)
    return scheduler.model


class _Loading:
    """An ``Outlet`` that waits until a model is loaded."""

    is_full = False

    def __init__(self, wants_adapter: bool) -> None:
        self._wants_adapter = wants_adapter
        self.ended = threading.Event()
        self.problem = ""

    def put(self, reply: ServiceReply) -> None:
        match reply:
            case LoadFailed(message=message):
                self.problem = message
                self.ended.set()
            case AdapterChanged(message=message):
                self.problem = message
                self.ended.set()
            case ModelLoaded() if not self._wants_adapter:
                self.ended.set()

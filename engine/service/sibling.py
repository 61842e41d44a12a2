"""Loads a second model next to the loaded one, which stays. Knows neither Qt nor torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import SafelightError, Sentence
from engine.service.backend import Backend
from engine.service.replies import AdapterChanged, LoadedModel, LoadFailed, LoadProgress, LoadReply, ModelLoaded
from engine.service.requests import LoadRequest


@dataclass(frozen=True)
class Runner:
    """A loaded model, and the backend that runs it."""

    backend: Backend
    model: LoadedModel


def load_sibling(backend: Backend, request: LoadRequest, progress: Callable[[float], object]) -> Runner | None:
    """Loads a model in a ``sibling`` of a backend; returns None if the request was cancelled meanwhile.

    Args:
        progress: called with the share that is done, 0 to 1.

    Raises:
        SafelightError: it cannot be loaded.
    """
    other = backend.sibling()
    found: list[LoadedModel] = []
    problems: list[str] = []

    def report(reply: LoadReply) -> None:
        match reply:
            case LoadProgress(_, share):
                progress(share)
            case ModelLoaded(model):
                found.append(model)
            case LoadFailed(message=message):
                problems.append(message)
            case AdapterChanged(path_or_id, title, message):
                if message:
                    problems.append(message)
                else:
                    found[0] = dataclasses.replace(found[0], adapter=path_or_id, adapter_title=title)

    other.load(request, report)
    if problems:
        other.unload()
        raise SafelightError(
            Sentence("{model} cannot be loaded: {why}.", model=request.title, why=problems[0].rstrip("."))
        )
    return Runner(other, found[0]) if found else None

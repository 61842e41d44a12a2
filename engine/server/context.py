"""The objects that all routes of one server share."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from engine.catalog import ADAPTERS, present
from engine.errors import quoted
from engine.server.errors import BUSY_SECONDS, ApiError, elsewhere, no_model
from engine.server.kept import KeptResponses, ServedPictures
from engine.server.live import LiveRequests
from engine.server.options import ServerOptions
from engine.server.schemas import SampledRequest
from engine.service import LoadedModel, Scheduler, is_remote


@dataclass(eq=False)
class ServerContext:
    scheduler: Scheduler
    options: ServerOptions
    live: LiveRequests = field(default_factory=LiveRequests)
    started: float = field(default_factory=time.time)
    is_stopping: bool = False
    pictures: ServedPictures = field(default_factory=ServedPictures)
    kept: KeptResponses = field(default_factory=KeptResponses)
    large_bodies: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.large_bodies = asyncio.Semaphore(self.options.most_large_bodies)

    @property
    def model(self) -> LoadedModel:
        """The loaded model.

        Raises:
            ApiError: none is ready.
        """
        if self.scheduler.loading is not None:
            # As llama.cpp's, except for its code, which is a number there.
            raise ApiError(503, "Loading model", code="loading", headers={"Retry-After": str(BUSY_SECONDS)})
        model = self.scheduler.model
        if model is None or not self.scheduler.is_alive:
            raise no_model()
        return model

    def pick(self, name: str | None) -> tuple[LoadedModel, str | None]:
        """Returns the loaded model, or a part of it, by a name from outside, and the adapter named with it; None: the
        whole one.

        Raises:
            ApiError: no model is ready, or it goes by another name.
        """
        model, name = self.model, name and present(name)  # programs may name one of earlier versions
        for one in (model, *model.parts):
            if name is None or name in (one.name, one.path_or_id):
                return one, None
        adapted = {f"{model.name}:{adapter}": adapter for adapter in adapters_of(model)}
        if name in adapted:
            return model, adapted[name]
        known = ", ".join((*(one.name for one in (model, *model.parts)), *adapted))
        said = f"The model {quoted(name)} is not loaded; available: {known}."
        raise ApiError(404, said, param="model", code="model_not_found")

    def model_and_fields(self, body: SampledRequest) -> tuple[LoadedModel, dict[str, Any]]:
        """Returns the model that a request names, and the fields that its run's request has, whatever its kind.

        Raises:
            ApiError: the model is another, or runs elsewhere.
        """
        model, adapter = self.pick(body.model)
        if is_remote(model.path_or_id):
            raise elsewhere()
        keep = self.options.keeps_traces
        return model, {"config": model.defaults, "seed": body.chosen_seed, "adapter": adapter, "keep": keep}


def adapters_of(model: LoadedModel) -> tuple[str, ...]:
    """Returns the ids of adapters that are known for a model."""
    if not model.capabilities.adapters:
        return ()
    return tuple(adapter.id for adapter in ADAPTERS if adapter.base == model.name)

"""The title of a model with an adapter. Knows neither Qt nor torch."""

from __future__ import annotations

from app.system.i18n import tr


def with_adapter(model: str, adapter: str) -> str:
    """Returns a model's title with its adapter's title; an empty ``adapter`` is none."""
    return tr("{model} with {adapter}", model=model, adapter=adapter) if adapter else model

"""What a model is called with what is on it. Knows neither Qt nor torch."""

from __future__ import annotations

from app.system.i18n import tr


def with_adapter(model: str, adapter: str) -> str:
    """A model's title with that of the adapter on it; empty for none."""
    return tr("{model} with {adapter}", model=model, adapter=adapter) if adapter else model

"""Lists the embedded adapters, those that fit a model, and titles with them. Knows neither Qt nor torch."""

from __future__ import annotations

from pathlib import Path

from app.system.i18n import tr
from engine import ADAPTERS, EmbeddedAdapter


def adapters() -> tuple[EmbeddedAdapter, ...]:
    """Returns the embedded adapters whose files exist."""
    return tuple(known for known in ADAPTERS if (known.folder / "adapter_config.json").is_file())


def adapters_for(model: str) -> tuple[str, ...]:
    """Returns the ids of the embedded adapters made for a model; a folder is matched by its name."""
    return tuple(known.id for known in adapters() if known.base in (model, Path(model).name))


def title_of_adapter(path_or_id: str) -> str:
    """Returns the title of an embedded adapter, or the name of a folder."""
    return next((known.title for known in ADAPTERS if known.id == path_or_id), Path(path_or_id).name)


def with_adapter(model: str, adapter: str) -> str:
    """Returns a model's title with its adapter's title; an empty ``adapter`` is none."""
    return tr("{model} with {adapter}", model=model, adapter=adapter) if adapter else model

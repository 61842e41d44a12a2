"""The embedded adapters: which are there, which go on a model, what one is called. Knows neither Qt nor torch."""

from __future__ import annotations

from pathlib import Path

from engine import ADAPTERS, EmbeddedAdapter


def adapters() -> tuple[EmbeddedAdapter, ...]:
    """The embedded adapters whose files are there."""
    return tuple(known for known in ADAPTERS if (known.folder / "adapter_config.json").is_file())


def adapters_for(model: str) -> tuple[str, ...]:
    """Ids of the embedded adapters that were made for a model; a folder's name tells which model it may be."""
    return tuple(known.id for known in adapters() if known.base in (model, Path(model).name))


def title_of_adapter(path_or_id: str) -> str:
    """An embedded adapter's title, or a folder's name."""
    return next((known.title for known in ADAPTERS if known.id == path_or_id), Path(path_or_id).name)

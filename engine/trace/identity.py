"""Identifies a loaded model for the header of its traces. Needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine import catalog
from engine.errors import SafelightError
from engine.fingerprint import fingerprint
from engine.trace.header import ModelIdentity


def identify_model(model: Any, path_or_id: str | Path, title: str = "") -> ModelIdentity:
    """Returns the identity of a loaded model, for the header of its traces.

    Args:
        model: from ``load_model``.
        path_or_id: the folder or id that it was loaded by.
    """
    try:
        found = fingerprint(catalog.resolve(path_or_id, files=True))
    except (SafelightError, OSError, ValueError):
        found = ""  # the model can run without it
    adapter = getattr(model, "adapter", None)
    experts = getattr(getattr(model, "precision", None), "experts", None)
    return ModelIdentity(
        name=str(model.name),
        title=title,
        path=str(path_or_id),
        fingerprint=found,
        canvas_length=model.config.canvas_length,
        vocab_size=model.config.vocab_size,
        eos_token_ids=tuple(model.generation_defaults.eos_token_ids),
        device=str(model.device),
        dtype=str(getattr(model, "dtype", "")).removeprefix("torch."),
        packing="" if experts is None else str(experts),
        adapter="" if adapter is None else adapter.title,
        adapter_fingerprint="" if adapter is None else adapter.fingerprint,
    )

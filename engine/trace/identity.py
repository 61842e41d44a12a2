"""Which model this is, told from its files without reading all of them. Needs no torch."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from engine import catalog
from engine.errors import SafelightError
from engine.trace.header import ModelIdentity

SAMPLES, SAMPLE_BYTES = 16, 4096


def identify_model(model: Any, path_or_id: str | Path, title: str = "") -> ModelIdentity:
    """The identity of a loaded model, for the header of its traces.

    Args:
        model: from ``load_model``.
        path_or_id: what it was loaded by.
    """
    try:
        found = fingerprint(catalog.resolve(path_or_id))
    except (SafelightError, OSError, ValueError):
        found = ""  # the model runs all the same
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


def fingerprint(folder: Path) -> str:
    """SHA-256 over config.json, tokenizer.json and samples of the weights, in hexadecimal.

    A tuned model has its base's config and tokenizer and files of the same size; sixteen pages of each file tell them
    apart and take no time even where a file has fifty gigabytes.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for name in ("config.json", "tokenizer.json"):
        digest.update(hashlib.sha256((folder / name).read_bytes()).digest())
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            for sample in range(SAMPLES):
                file.seek(max(0, size - SAMPLE_BYTES) * sample // (SAMPLES - 1))
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()

"""Which model this is, told from its files without reading all of them. Needs no torch."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from engine import catalog
from engine.errors import SafelightError
from engine.files import JSON_BYTES, open_regular
from engine.text.tokenizer_file import FILE_BYTES
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
        SafelightError: a file is no regular one, or the config or the tokenizer is larger than any that is loaded.
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for name, most in (("config.json", JSON_BYTES), ("tokenizer.json", FILE_BYTES)):
        digest.update(_whole(folder / name, most))
    for path in sorted(folder.glob("*.safetensors")):
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            digest.update(f"{path.name} {size}\n".encode())
            for sample in range(SAMPLES):
                file.seek(max(0, size - SAMPLE_BYTES) * sample // (SAMPLES - 1))
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()


def _whole(path: Path, most: int) -> bytes:
    """The SHA-256 of a file of at most ``most`` bytes, read in pieces."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        size = 0
        while piece := file.read(2**20):
            size += len(piece)
            if size > most:
                raise SafelightError(f"{path} is larger than {most:,} bytes, the most that is read of such a file")
            digest.update(piece)
    return digest.digest()

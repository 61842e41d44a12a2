"""Identifies a model by its files without reading all of them. Needs no torch."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from engine.errors import SafelightError
from engine.files import JSON_BYTES, open_regular
from engine.model_files import gguf_parts, is_gguf
from engine.text.vocabulary_files import FILE_BYTES, FILES

SAMPLES, SAMPLE_BYTES = 16, 4096


def fingerprint(folder: Path) -> str:
    """Returns the SHA-256 over config.json, tokenizer.json and samples of the weights, in hexadecimal; of a GGUF file
    over samples of it.

    A tuned model has its base's config and tokenizer, and files of equal size. Sixteen pages of each file distinguish
    them, and are read quickly even from a file of fifty gigabytes.

    Raises:
        SafelightError: a file is no regular one, or the config or the tokenizer is larger than any that is loaded.
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    if is_gguf(folder):
        weights = gguf_parts(folder)
    else:
        weights = sorted(folder.glob("*.safetensors"))
        digest.update(_whole(folder / "config.json", JSON_BYTES))
        has_stand_in = not (folder / "tokenizer.json").exists() and (folder / FILES[0]).exists()
        for name in FILES if has_stand_in else ("tokenizer.json",):
            digest.update(_whole(folder / name, FILE_BYTES))
    for path in weights:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            digest.update(f"{path.name} {size}\n".encode())
            for sample in range(SAMPLES):
                file.seek(max(0, size - SAMPLE_BYTES) * sample // (SAMPLES - 1))
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()


def _whole(path: Path, most: int) -> bytes:
    """Returns the SHA-256 of a file of at most ``most`` bytes, read in pieces."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        size = 0
        while piece := file.read(2**20):
            size += len(piece)
            if size > most:
                raise SafelightError(f"{path} is larger than {most:,} bytes, the most that is read of such a file")
            digest.update(piece)
    return digest.digest()

"""GGUF files: a tiny model's with damage in its header, its keys or its tensors, planned and imported."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

NUMBERS = (0, 1, 2, 7, 127, 255, 2**16, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


ARCHITECTURES = ("diffusion-gemma", "llama", "gemma3")


@cache
def _whole(architecture: str) -> tuple[bytes, int]:
    """A sound file, and where its tensors begin."""
    from engine import catalog
    from engine.weights.gguf.header import GGUFHeader
    from tests.engine.gguf_files import q4_k_m, small, tiny

    with tempfile.TemporaryDirectory() as place:
        file, tokenizer = Path(place) / "tiny.gguf", catalog.resolve(catalog.SKILLS)
        if architecture == "diffusion-gemma":
            tiny(file, tokenizer, q4_k_m)
        else:
            small(file, tokenizer, architecture)
        begin = min(tensor.start for tensor in GGUFHeader.read(file).tensors.values())
        return file.read_bytes(), begin


@cache
def _parts() -> dict[str, bytes]:
    """A sound model in parts, by the names of its files."""
    from engine import catalog
    from tests.engine import gguf_files

    made, tokenizer = gguf_files.model(), catalog.resolve(catalog.SKILLS)
    said = gguf_files.values(made.config) | gguf_files.tokenizer_values(tokenizer)
    with tempfile.TemporaryDirectory() as place:
        gguf_files.write(Path(place) / "a.gguf", said, gguf_files.weights(made, gguf_files.q8_0), most_tensors=20)
        return {path.name: path.read_bytes() for path in sorted(Path(place).iterdir())}


def _lay_parts(random: Random, folder: Path) -> Path:
    """Parts of which some are damaged, missing, or another in their place; returns one of them."""
    parts = _parts()
    for name in parts:
        data = parts[random.choice((name, name, name, random.choice(list(parts))))]
        (folder / name).write_bytes(mutate.damaged(random, data) if random.random() < 0.3 else data)
    if random.random() < 0.2:
        (folder / random.choice(list(parts))).unlink()
    return folder / random.choice(list(parts))


def _changed(random: Random, data: bytes, begin: int) -> bytes:
    made = bytearray(data)
    match random.randrange(6):
        case 0:
            return mutate.damaged(random, data)
        case 1:
            return mutate.damaged(random, data[:begin]) + data[begin:]
        case 2:
            return data[: random.randrange(len(data))]
        case 3:  # a number, wherever one may stand
            at, size = random.randrange(8, begin - 8), random.choice((4, 8))
            made[at : at + size] = (random.choice(NUMBERS) % 2 ** (8 * size)).to_bytes(size, "little")
        case 4:  # the name of a key, a tensor or a token
            names = (b"tokenizer.ggml.", b"blk.0.", b"blk.1.", b"ffn_", b"attention.", b"rope", b"<turn|>")
            name = random.choice((*names, *(architecture.encode() + b"." for architecture in ARCHITECTURES)))
            made[:] = data.replace(name, bytes(random.randrange(32, 127) for _ in name), random.choice((1, -1)))
        case _:  # a tensor's numbers
            at = random.randrange(begin, len(data) - 64)
            made[at : at + 64] = random.choice((b"\xff" * 64, bytes(64), random.randbytes(64)))
    return bytes(made)


def _make(random: Random, folder: Path) -> Attempt:
    import torch

    from engine.models.gguf_import import import_gguf, plan_import

    file = folder / "a.gguf"
    if random.random() < 0.2:
        file = _lay_parts(random, folder)
    elif random.randrange(20):
        file.write_bytes(_changed(random, *_whole(random.choice(ARCHITECTURES))))
    else:
        make: Any = random.choice((os.mkfifo, os.mkdir, lambda place: os.symlink("/dev/zero", place)))
        make(file)

    def attempt() -> None:
        plan_import(file)
        import_gguf(file, folder / "out", "auto", torch.device("cpu"))

    return attempt


def _prepare() -> None:
    for architecture in ARCHITECTURES:
        _whole(architecture)
    _parts()


KINDS = (Kind("gguf-files", _make, prepare=_prepare),)

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


@cache
def _whole() -> tuple[bytes, int]:
    """A sound file, and where its tensors begin."""
    from engine import catalog
    from engine.weights.gguf.header import GGUFHeader
    from tests.engine.gguf_files import q4_k_m, tiny

    with tempfile.TemporaryDirectory() as place:
        file = tiny(Path(place) / "tiny.gguf", catalog.resolve(catalog.SKILLS), q4_k_m)
        begin = min(tensor.start for tensor in GGUFHeader.read(file).tensors.values())
        return file.read_bytes(), begin


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
            names = (b"diffusion-gemma.", b"tokenizer.ggml.", b"blk.0.", b"blk.1.", b"ffn_", b"attention.", b"<turn|>")
            name = random.choice(names)
            made[:] = data.replace(name, bytes(random.randrange(32, 127) for _ in name), random.choice((1, -1)))
        case _:  # a tensor's numbers
            at = random.randrange(begin, len(data) - 64)
            made[at : at + 64] = random.choice((b"\xff" * 64, bytes(64), random.randbytes(64)))
    return bytes(made)


def _make(random: Random, folder: Path) -> Attempt:
    import torch

    from engine.models.gguf_import import import_gguf, plan_import

    file = folder / "a.gguf"
    if random.randrange(20):
        file.write_bytes(_changed(random, *_whole()))
    else:
        make: Any = random.choice((os.mkfifo, os.mkdir, lambda place: os.symlink("/dev/zero", place)))
        make(file)

    def attempt() -> None:
        plan_import(file)
        import_gguf(file, folder / "out", "auto", torch.device("cpu"))

    return attempt


def _prepare() -> None:
    _whole()


KINDS = (Kind("gguf-files", _make, prepare=_prepare),)

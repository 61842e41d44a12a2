"""Reads GGUF's types whose codes a scheme of ours has, too: ``quant.UINT4``, ``INT8_G32`` and ``INT8_G16``.

Q4_0, Q4_1, Q5_0 and Q8_0 are taken as they are. Scales of Q4_K and Q6_K, products of a small whole number and an fp16
one, are rounded to fp16. The library in C reads a file's rows at the speed of memory; numpy serves without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind
from numpy.typing import NDArray
from torch import Tensor

from engine.kernels.native import matrices
from engine.quant import INT8_G16, INT8_G32, UINT4, Packed, Scheme, join_nibbles
from engine.quant.uint4 import words_of

Blocks = NDArray[np.uint8]
Parts = tuple[NDArray[np.generic], NDArray[np.float32], NDArray[np.float32] | None]
"""Codes (blocks, inputs), a byte each; scales (blocks, groups), and minima, or None."""


class KeptType(NamedTuple):
    """A type's scheme, and the function that splits its blocks."""

    scheme: Scheme
    parts: Callable[[Blocks], Parts]


def read_in_c(file: BinaryIO, start: int, kind: Kind, into: Packed, threads: int) -> bool:
    """Reads rows of a type of ``KEPT`` from a byte of a file on, as ``packed_of``; False without the library.

    Args:
        into: ``quant.empty`` room for them, or rows of it.

    Raises:
        OSError: the file ends before them, or cannot be read.
        ValueError: a scale is not finite.
        SafelightError: memory is short.
    """
    numbers, size = GGML_QUANT_SIZES[kind]
    return matrices.read(file.fileno(), start, int(kind), into.shape[1] // numbers * size, into, threads)


def packed_of(data: Blocks, kind: Kind) -> Packed:
    """Returns the rows of a file (R, bytes) in a type of ``KEPT`` as a packed (R, in).

    Raises:
        ValueError: a scale is not finite.
    """
    scheme, parts = KEPT[kind]
    with np.errstate(all="ignore"):
        codes, scales, minima = parts(data.reshape(-1, GGML_QUANT_SIZES[kind][1]))
        halves = [_half(part, len(data)) for part in (scales, minima) if part is not None]
    if not all(bool(part.isfinite().all()) for part in halves):
        raise ValueError("a scale is not finite")
    own = torch.from_numpy(np.ascontiguousarray(codes)).view(len(data), -1)
    if scheme == UINT4:
        return Packed(join_nibbles(own), words_of(*halves).T.contiguous(), scheme)
    return Packed(own, halves[0].T, scheme)


def _half(part: NDArray[np.float32], rows: int) -> Tensor:
    return torch.from_numpy(part.astype(np.float16).reshape(rows, -1))


def _q4_0(blocks: Blocks) -> Parts:
    scales = _fp16(blocks[:, :2])
    return _nibbles(blocks[:, 2:]), scales, -8 * scales


def _q4_1(blocks: Blocks) -> Parts:
    return _nibbles(blocks[:, 4:]), _fp16(blocks[:, :2]), _fp16(blocks[:, 2:4])


def _q4_k(blocks: Blocks) -> Parts:
    """Reads blocks of 256 inputs: two fp16 units, 8 scales and minima of 6 bits, and codes of pairs of 32 inputs."""
    unit, least = _fp16(blocks[:, :2]), _fp16(blocks[:, 2:4])
    first, second, third = (blocks[:, start : start + 4] for start in (4, 8, 12))
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=1)
    minima = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], axis=1)
    pairs = blocks[:, 16:].reshape(-1, 4, 32)
    return np.stack([pairs & 15, pairs >> 4], axis=2), unit * scales, -least * minima


def _q5_0(blocks: Blocks) -> Parts:
    """Reads blocks of 32 inputs: an fp16 scale, the highest bits of all codes, and their low halves."""
    high = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    return (_nibbles(blocks[:, 6:]) | high << 4).view(np.int8) - np.int8(16), _fp16(blocks[:, :2]), None


def _q6_k(blocks: Blocks) -> Parts:
    """Reads blocks of 256 inputs: low halves, pairs of high bits, 16 scales of 8 bits, and their fp16 unit."""
    low, high = blocks[:, :128].reshape(-1, 2, 1, 2, 32), blocks[:, 128:192].reshape(-1, 2, 1, 32)
    fours = np.concatenate([low & 15, low >> 4], axis=2).reshape(-1, 2, 4, 32)
    pairs = high >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    codes = (fours | pairs << 4).view(np.int8) - np.int8(32)
    return codes, _fp16(blocks[:, 208:]) * blocks[:, 192:208].view(np.int8), None


def _q8_0(blocks: Blocks) -> Parts:
    return blocks[:, 2:].view(np.int8), _fp16(blocks[:, :2]), None


def _nibbles(blocks: Blocks) -> Blocks:
    return np.concatenate([blocks & 15, blocks >> 4], axis=1)


def _fp16(blocks: Blocks) -> NDArray[np.float32]:
    return np.ascontiguousarray(blocks).view(np.float16).astype(np.float32)


KEPT = {
    Kind.Q4_0: KeptType(UINT4, _q4_0),
    Kind.Q4_1: KeptType(UINT4, _q4_1),
    Kind.Q4_K: KeptType(UINT4, _q4_k),
    Kind.Q5_0: KeptType(INT8_G32, _q5_0),
    Kind.Q8_0: KeptType(INT8_G32, _q8_0),
    Kind.Q6_K: KeptType(INT8_G16, _q6_k),
}

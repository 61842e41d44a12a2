"""Reads GGUF's types with a scale, and maybe a minimum, for 32 inputs as ``quant.UINT4`` and ``INT8_G32`` have them.

Q4_0, Q4_1 and Q8_0 are taken as they are. Scales of Q4_K, products of a 6-bit number and an fp16 one, are rounded to
fp16.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from gguf.constants import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from engine.quant import INT8_G32, UINT4, Packed, join_nibbles
from engine.quant.uint4 import words_of

Blocks = NDArray[np.uint8]
Parts = tuple[Blocks, NDArray[np.float32], NDArray[np.float32]]
"""Codes (blocks, 32), a byte each; scales and minima (blocks,)."""


def read_fours(data: Blocks, kind: Kind) -> Packed:
    """Returns the rows of a file (R, bytes) in a type of ``READERS`` as a packed (R, in)."""
    with np.errstate(all="ignore"):  # values that are not finite are the caller's to refuse
        codes, scales, minima = (part.reshape(len(data), -1) for part in READERS[kind](data))
        halves = [torch.from_numpy(part.astype(np.float16)) for part in (scales, minima)]
    return Packed(join_nibbles(torch.from_numpy(codes)), words_of(*halves).T.contiguous(), UINT4)


def read_eights(data: Blocks) -> Packed:
    """Returns the rows of a file (R, bytes) of type Q8_0 as a packed (R, in)."""
    blocks = data.reshape(len(data), -1, 34)
    codes = torch.from_numpy(np.ascontiguousarray(blocks[..., 2:]).view(np.int8))
    scales = torch.from_numpy(np.ascontiguousarray(blocks[..., :2]).view(np.float16))
    return Packed(codes.flatten(1), scales[..., 0].T.contiguous(), INT8_G32)


def _q4_0(data: Blocks) -> Parts:
    blocks = data.reshape(-1, 18)
    scales = _fp16(blocks[:, :2])
    return _nibbles(blocks[:, 2:]), scales, -8 * scales


def _q4_1(data: Blocks) -> Parts:
    blocks = data.reshape(-1, 20)
    return _nibbles(blocks[:, 4:]), _fp16(blocks[:, :2]), _fp16(blocks[:, 2:4])


def _q4_k(data: Blocks) -> Parts:
    """Reads blocks of 256 inputs: two fp16 units, 8 scales and minima of 6 bits, and codes of pairs of 32 inputs."""
    blocks = data.reshape(-1, 144)
    unit, least = _fp16(blocks[:, :2]), _fp16(blocks[:, 2:4])
    first, second, third = (blocks[:, start : start + 4] for start in (4, 8, 12))
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=1)
    minima = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], axis=1)
    pairs = blocks[:, 16:].reshape(-1, 4, 32)
    codes = np.stack([pairs & 15, pairs >> 4], axis=2)
    return codes, unit[:, None] * scales, -least[:, None] * minima


def _nibbles(blocks: Blocks) -> Blocks:
    return np.concatenate([blocks & 15, blocks >> 4], axis=1)


def _fp16(blocks: Blocks) -> NDArray[np.float32]:
    return np.ascontiguousarray(blocks).view(np.float16)[:, 0].astype(np.float32)


READERS: dict[Kind, Callable[[Blocks], Parts]] = {Kind.Q4_0: _q4_0, Kind.Q4_1: _q4_1, Kind.Q4_K: _q4_k}

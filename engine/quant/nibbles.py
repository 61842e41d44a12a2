"""4-bit codes, two per byte, in either of two orders. Plain torch, any device.

*Tiles* are the order of disk, memory and kernels. A byte holds two codes of one tile of 64 inputs; byte j has input j
in its low and input 32 + j in its high nibble. A kernel thus gets two contiguous half tiles by a mask and a shift,
without interleaving.

*Blocks* of B rows are the order of the int4 kernels of CPUs, in memory only. Byte (k, j) of a block has input k of row
j in its low and of row B / 2 + j in its high nibble. It takes the same space.
"""

from __future__ import annotations

import torch
from torch import Tensor

TILE = 64  # inputs that share 32 bytes of 4-bit codes


def join_nibbles(nibbles: Tensor) -> Tensor:
    """Joins 4-bit codes (..., in), one per byte, to bytes (..., in / 2) in tile order."""
    tiles = nibbles.reshape(*nibbles.shape[:-1], -1, 2, TILE // 2)
    joined: Tensor = tiles[..., 0, :] | tiles[..., 1, :] << 4
    return joined.flatten(-2)


def split_nibbles(codes: Tensor) -> Tensor:
    """Splits packed bytes (..., in / 2) in tile order into 4-bit codes (..., in), one per byte."""
    tiles = codes.reshape(*codes.shape[:-1], -1, TILE // 2)
    return torch.stack([tiles & 15, tiles >> 4], dim=-2).flatten(-3)


def to_blocks(codes: Tensor, block: int) -> None:
    """Reorders the 4-bit codes (out, in / 2) of a matrix from tiles to blocks of rows, in place."""
    rows, half = codes.shape
    pairs = codes.view(rows // block, 2, block // 2, half)
    first, second = pairs[:, 0], pairs[:, 1]  # rows j and B / 2 + j
    into = torch.empty(rows // block, half // 32, 2, 32, block // 2, dtype=torch.uint8)  # inputs as (tile, half, place)
    for side, joined in enumerate((first & 15 | second << 4, first >> 4 | second & 0xF0)):
        into[:, :, side] = joined.view(rows // block, block // 2, -1, 32).permute(0, 2, 3, 1)
    codes.copy_(into.view(codes.shape))


def split_blocks(codes: Tensor, block: int) -> Tensor:
    """Splits packed bytes (..., out, in / 2) in blocks of rows into 4-bit codes (..., out, in), one per byte."""
    *outer, rows, half = codes.shape
    pairs = codes.reshape(*outer, rows // block, 2 * half, block // 2).transpose(-1, -2)  # (..., B / 2, in)
    return torch.stack([pairs & 15, pairs >> 4], dim=-3).reshape(*outer, rows, 2 * half)

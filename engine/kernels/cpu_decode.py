"""Rows of packed weights to numbers that a processor multiplies, a decoder for each scheme.

A decoder may put inputs into another order, the one that is cheapest to make: the activations are then put into the
same order, a thousand times fewer numbers than weights. It may leave the scales to be applied to the product.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor

from engine.kernels import reference
from engine.quant import INT4, INT4_G64, INT8, NF4, NF4_VALUES, TILE, Packed, Scheme, unpack

DECODED = 1 << 18  # four-bit codes decoded at a time, so that what is between two operations stays in a core's cache
EXACT = 0.0625  # an int4 code stands in the upper half of its byte: 16 times its value


class RowDecoder(ABC):
    """How rows of a packed weight become numbers."""

    scales_products: ClassVar[bool] = False  # whether a row's one scale is yet to be applied, to its products

    def arrange(self, x: Tensor) -> Tensor:
        """x (N, in) with its numbers where ``pieces`` puts the weights of the same inputs."""
        return x

    def pieces(self, weight: Packed, buffer: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Consecutive rows of a packed (out, in) as numbers (rows, in) in the buffer, where the next ones go, too."""
        rows = max(1, buffer.numel() // weight.shape[-1])
        for start in range(0, weight.shape[0], rows):
            part = slice(start, min(start + rows, weight.shape[0]))
            into = buffer[: (part.stop - start) * weight.shape[-1]].view(part.stop - start, -1)
            self.fill(weight.part(part), into)
            yield part, into

    @abstractmethod
    def fill(self, weight: Packed, into: Tensor) -> None:
        """All rows of a packed (R, in) as numbers into (R, in)."""


class Int8Rows(RowDecoder):
    """Codes as they are, which is exact in bf16, too."""

    scales_products: ClassVar[bool] = True

    def fill(self, weight: Packed, into: Tensor) -> None:
        into.copy_(weight.codes)


class TileRows(RowDecoder):
    """Four-bit codes in tiles, scaled, a few at a time."""

    def fill(self, weight: Packed, into: Tensor) -> None:
        rows = max(1, DECODED // weight.shape[-1])
        for start in range(0, weight.shape[0], rows):
            part = slice(start, start + rows)
            self.decode(weight.codes[part], weight.scales[:, part].T, into[part])

    @abstractmethod
    def decode(self, codes: Tensor, scales: Tensor, into: Tensor) -> None:
        """Codes (R, in / 2) and scales (R, groups) -> (R, in)."""


class Int4Rows(TileRows):
    """A row's low nibbles first, then all its high ones."""

    def arrange(self, x: Tensor) -> Tensor:
        return _halves(x).transpose(1, 2).flatten(1)

    def decode(self, codes: Tensor, scales: Tensor, into: Tensor) -> None:
        halves = into.view(into.shape[0], 2, -1, TILE // 2)  # (R, low and high, tiles, 32)
        signed = codes ^ 0x88  # code - 8 in each nibble
        halves[:, 0].copy_((signed << 4).view(torch.int8).view(halves[:, 0].shape))
        halves[:, 1].copy_((signed & 0xF0).view(torch.int8).view(halves[:, 1].shape))
        tiles = scales.reshape(into.shape[0], halves.shape[2], -1).transpose(1, 2)  # (R, groups a tile: 1 or 2, tiles)
        halves *= (tiles.to(into.dtype) * EXACT)[..., None]


class NormalFloat4Rows(TileRows):
    """Each byte's two nibbles side by side."""

    def arrange(self, x: Tensor) -> Tensor:
        return _halves(x).transpose(2, 3).flatten(1)

    def decode(self, codes: Tensor, scales: Tensor, into: Tensor) -> None:
        pairs = torch.index_select(_nf4_pairs(into.dtype), 0, codes.flatten().int()).view(into.dtype)
        shape = (into.shape[0], -1, TILE)
        torch.mul(pairs.view(shape), scales[..., None].to(into.dtype), out=into.view(shape))


class BlockRows(RowDecoder):
    """Four-bit codes in blocks of rows, for another number type than their own kernel's."""

    def pieces(self, weight: Packed, buffer: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Consecutive whole blocks; the buffer gives the type alone."""
        for part, rows in reference.slices(weight):
            yield part, rows.to(buffer.dtype)

    def fill(self, weight: Packed, into: Tensor) -> None:
        into.copy_(unpack(weight))


DECODERS: dict[Scheme, RowDecoder] = {
    INT4: Int4Rows(),
    INT4_G64: Int4Rows(),
    NF4: NormalFloat4Rows(),
    INT8: Int8Rows(),
}
BLOCKS = BlockRows()


def decoder(weight: Packed) -> RowDecoder:
    """What decodes a weight, by its scheme and the order of its codes."""
    return BLOCKS if weight.block else DECODERS[weight.scheme]


def _halves(x: Tensor) -> Tensor:
    """x (N, in) -> (N, tiles, low and high nibbles, 32)."""
    return x.view(x.shape[0], -1, 2, TILE // 2)


@functools.cache
def _nf4_pairs(kind: torch.dtype) -> Tensor:
    """What the two nibbles of each of the 256 bytes stand for, low one first, as one number of twice the width."""
    values = torch.tensor(NF4_VALUES).to(kind)
    byte = torch.arange(256)
    both = torch.stack([values[byte & 15], values[byte >> 4]], dim=1)
    return both.view(torch.float32 if kind == torch.bfloat16 else torch.float64)[:, 0].clone()

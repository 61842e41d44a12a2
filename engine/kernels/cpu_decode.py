"""Decodes rows of packed weights to numbers that a CPU multiplies; one decoder per scheme.

A decoder may change the order of the inputs to the one that is cheapest to produce: the activations are then put into
the same order, a thousand times fewer numbers than weights. It may leave scales of whole rows to the product.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from engine.quant import (
    E2M1_VALUES,
    FP4_F32,
    FP4_VALUES,
    INT4,
    INT4_G64,
    INT8,
    INT8_G16,
    INT8_G32,
    NF4,
    NF4_F32,
    NF4_VALUES,
    NVFP4,
    TILE,
    UINT4,
    Packed,
    Scheme,
)
from engine.quant.integers import MIDDLE, halves_of

DECODED = 1 << 18  # four-bit codes decoded at a time, so that intermediates stay in a core's cache
EXACT = 0.0625  # an int4 code in the upper half of its byte is 16 times its value


class RowDecoder(ABC):
    """Decodes rows of a packed weight."""

    def arrange(self, x: Tensor) -> Tensor:
        """Returns x (N, in) in the input order of ``pieces``."""
        return x

    def product_scales(self, weight: Packed) -> Tensor | None:
        """Returns factors of the products with the rows of a packed (R, in), fp32 (R,); None: there are none."""
        return weight.row_scales

    def pieces(self, weight: Packed, buffer: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yields rows of a packed (out, in), decoded (rows, in) into the buffer; each overwrites the previous."""
        rows = max(1, buffer.numel() // weight.shape[-1])
        for start in range(0, weight.shape[0], rows):
            part = slice(start, min(start + rows, weight.shape[0]))
            into = self.place(buffer[: (part.stop - start) * weight.shape[-1]], weight.shape[-1])
            self.fill(weight.part(part), into)
            yield part, into

    def place(self, room: Tensor, inputs: int) -> Tensor:
        """Returns a flat part of the buffer as rows (R, in), in the decoder's memory order."""
        return room.view(-1, inputs)

    @abstractmethod
    def fill(self, weight: Packed, into: Tensor) -> None:
        """Decodes all rows of a packed (R, in) into (R, in)."""


class Int8Rows(RowDecoder):
    """int8 codes as numbers, exact also in bf16."""

    def product_scales(self, weight: Packed) -> Tensor | None:
        return weight.scales[0]

    def fill(self, weight: Packed, into: Tensor) -> None:
        into.copy_(weight.codes)


class Int8GroupRows(RowDecoder):
    """int8 codes with scales of their own for groups of inputs."""

    def fill(self, weight: Packed, into: Tensor) -> None:
        rows = max(1, DECODED // weight.shape[-1])
        for start in range(0, weight.shape[0], rows):
            part = slice(start, start + rows)
            groups = into[part].view(-1, weight.scales.shape[0], weight.scheme.group_size)
            torch.mul(
                weight.codes[part].view(groups.shape), weight.scales[:, part].T[..., None].to(into.dtype), out=groups
            )


class TileRows(RowDecoder):
    """Four-bit codes in tiles, decoded and scaled a few rows at a time."""

    def fill(self, weight: Packed, into: Tensor) -> None:
        rows = max(1, DECODED // weight.shape[-1])
        for start in range(0, weight.shape[0], rows):
            part = slice(start, start + rows)
            self.decode(weight.codes[part], weight.scales[:, part].T, into[part])

    @abstractmethod
    def decode(self, codes: Tensor, scales: Tensor, into: Tensor) -> None:
        """Decodes codes (R, in / 2) and scales (R, groups) into (R, in)."""


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


class Uint4Rows(Int4Rows):
    """Rows in the order of int4, computed in fp32 and rounded once."""

    def decode(self, codes: Tensor, scales: Tensor, into: Tensor) -> None:
        shape = (into.shape[0], 2, -1, TILE // 2)  # (R, low and high, tiles, 32)
        nibbles = torch.stack([codes & 15, codes >> 4], dim=1).view(shape).float()
        own, minima = (half.float().view(len(into), -1, 2).mT[..., None] for half in halves_of(scales, torch.float16))
        into.view(shape).copy_(nibbles.mul_(own).add_(minima))


class NormalFloat4Rows(TileRows):
    """The two nibbles of each byte are neighbours."""

    def __init__(self, book: tuple[float, ...] = NF4_VALUES) -> None:
        self.book = book

    def arrange(self, x: Tensor) -> Tensor:
        return _halves(x).transpose(2, 3).flatten(1)

    def decode(self, codes: Tensor, scales: Tensor, into: Tensor) -> None:
        pairs = torch.index_select(_pairs(self.book, into.dtype), 0, codes.flatten().int()).view(into.dtype)
        shape = (into.shape[0], -1, TILE)
        torch.mul(pairs.view(shape), scales[..., None].to(into.dtype), out=into.view(shape))


class Nvfp4Rows(TileRows):
    """The two nibbles of each byte are neighbours, as in nf4; values and their groups' scales are exact in bf16."""

    def arrange(self, x: Tensor) -> Tensor:
        return _halves(x).transpose(2, 3).flatten(1)

    def decode(self, codes: Tensor, scales: Tensor, into: Tensor) -> None:
        pairs = torch.index_select(_pairs(E2M1_VALUES, into.dtype), 0, codes.flatten().int()).view(into.dtype)
        shape = (into.shape[0], -1, 2, 16, 2)  # tile, group of the half, place, half
        groups = NVFP4.read_scales(scales.T).to(into.dtype).view(into.shape[0], -1, 2, 2).transpose(2, 3)
        torch.mul(pairs.view(shape), groups[:, :, :, None], out=into.view(shape))


class BlockRows(RowDecoder):
    """int4 codes in blocks of rows, for number types that their kernel does not support, and for many tokens.

    The rows of a block, whose codes are neighbours, stay neighbours: a piece is the view of its transpose.
    """

    def pieces(self, weight: Packed, buffer: Tensor) -> Iterator[tuple[slice, Tensor]]:
        whole = weight.block * weight.shape[-1]
        return super().pieces(weight, buffer[: max(whole, buffer.numel() // whole * whole)])

    def place(self, room: Tensor, inputs: int) -> Tensor:
        return room.view(inputs, -1).T

    def fill(self, weight: Packed, into: Tensor) -> None:
        columns, inputs = into.T, weight.shape[-1]  # (in, R)
        codes = weight.codes.view(-1, inputs, weight.block // 2)
        groups = columns.view(-1, weight.scheme.group_size, columns.shape[1])
        for index, block in enumerate(codes):
            signed = block ^ 0x88  # code - 8 in each nibble
            first = index * weight.block
            middle, end = first + weight.block // 2, first + weight.block
            columns[:, first:middle] = (signed << 4).view(torch.int8)
            columns[:, middle:end] = (signed & 0xF0).view(torch.int8)
            groups[..., first:end] *= (weight.scales[:, None, first:end].to(into.dtype)) * EXACT


class Uint4BlockRows(BlockRows):
    """uint4 codes in blocks of rows; computed in fp32 and rounded once."""

    def fill(self, weight: Packed, into: Tensor) -> None:
        columns, inputs = into.T, weight.shape[-1]  # (in, R)
        scales, zeros = (half.float() for half in halves_of(weight.scales, torch.bfloat16))  # (groups, R)
        for index, block in enumerate(weight.codes.view(-1, inputs, weight.block // 2)):
            part = slice(index * weight.block, (index + 1) * weight.block)
            codes = torch.cat([block & 15, block >> 4], dim=1).float().sub_(MIDDLE)  # (in, rows of the block)
            grouped = codes.view(-1, weight.scheme.group_size, weight.block)
            columns[:, part] = grouped.mul_(scales[:, None, part]).add_(zeros[:, None, part]).view(codes.shape)


DECODERS: dict[Scheme, RowDecoder] = {
    INT4: Int4Rows(),
    INT4_G64: Int4Rows(),
    NF4: NormalFloat4Rows(),
    NF4_F32: NormalFloat4Rows(),
    FP4_F32: NormalFloat4Rows(FP4_VALUES),
    NVFP4: Nvfp4Rows(),
    INT8: Int8Rows(),
    INT8_G16: Int8GroupRows(),
    INT8_G32: Int8GroupRows(),
    UINT4: Uint4Rows(),
}
BLOCKS: dict[Scheme, RowDecoder] = {INT4: BlockRows(), INT4_G64: BlockRows(), UINT4: Uint4BlockRows()}


def decoder(weight: Packed) -> RowDecoder:
    """Returns the decoder of a weight, by its scheme and the order of its codes."""
    return (BLOCKS if weight.block else DECODERS)[weight.scheme]


def _halves(x: Tensor) -> Tensor:
    """Returns x (N, in) as (N, tiles, low and high nibbles, 32)."""
    return x.view(x.shape[0], -1, 2, TILE // 2)


@functools.cache
def _pairs(book: tuple[float, ...], kind: torch.dtype) -> Tensor:
    """Returns the values of both nibbles of each of the 256 bytes, low one first, as one number of twice the width."""
    values = torch.tensor(book).to(kind)
    byte = torch.arange(256)
    both = torch.stack([values[byte & 15], values[byte >> 4]], dim=1)
    return both.view(torch.float32 if kind == torch.bfloat16 else torch.float64)[:, 0].clone()

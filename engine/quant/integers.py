"""int4 and int8, symmetric, and uint4.

int4: -8 to 7 times a bf16 scale, over 32 or 64 consecutive inputs; a code is the value plus 8. int8: -127 to 127 times
a scale, of fp32 for a whole row, or of fp16 for 32 or 16 inputs, as in GGUF.

uint4: 0 to 15 times a scale plus a minimum, both fp16, over 32 consecutive inputs; GGUF's Q4_0 and Q4_1 as they are.
A word of 32 bits holds both: the scale in its low half, the minimum in its high one. Kernels multiply by bf16: by the
scale, and by the value of code 8, which is nearer to zero than the minimum. Those of cards round both as they read
them; in memory, where codes are in blocks of rows for the int4 kernel of CPUs, the halves are these two.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from engine.quant.nibbles import TILE, join_nibbles, split_blocks, split_nibbles
from engine.quant.scheme import Packed, Scaled, Scheme, register


class Int4(Scaled):
    """Codes in tiles, or, in memory, in blocks of rows."""

    bits: ClassVar[int] = 4
    codes_dtype: ClassVar[torch.dtype] = torch.uint8
    scale_dtype: ClassVar[torch.dtype] = torch.bfloat16
    spread: ClassVar[float] = 4.64
    unit: ClassVar[int] = TILE
    unpacking_bytes: ClassVar[int] = 9  # nibbles, then values and products

    def scales(self, extreme: Tensor) -> Tensor:
        """Returns scales that map a group's extreme to -8, whatever its sign, so that no code is unused."""
        return extreme / -8.0

    def encode(self, scaled: Tensor) -> Tensor:
        return join_nibbles((scaled.round().clamp(-8, 7) + 8).to(torch.uint8))

    def decode(self, packed: Packed) -> Tensor:
        nibbles = split_blocks(packed.codes, packed.block) if packed.block else split_nibbles(packed.codes)
        return nibbles.float() - 8


INT4 = register(Int4("int4-g32", 32))
INT4_G64 = register(Int4("int4-g64", 64))


class Int8(Scaled):
    """Codes are the values themselves."""

    bits: ClassVar[int] = 8
    codes_dtype: ClassVar[torch.dtype] = torch.int8
    scale_dtype: ClassVar[torch.dtype] = torch.float32
    spread: ClassVar[float] = 73.3

    def scales(self, extreme: Tensor) -> Tensor:
        return extreme.abs() / 127.0

    def encode(self, scaled: Tensor) -> Tensor:
        return scaled.round().clamp(-127, 127).to(torch.int8)

    def decode(self, packed: Packed) -> Tensor:
        return packed.codes.float()


class Int8Groups(Int8):
    """Scales are fp16."""

    scale_dtype: ClassVar[torch.dtype] = torch.float16


INT8 = register(Int8("int8", 0))
INT8_G32 = register(Int8Groups("int8-g32", 32))
INT8_G16 = register(Int8Groups("int8-g16", 16))


MIDDLE = 8  # the code whose value kernels take as the zero point


class Uint4(Scheme):
    """Codes in tiles, or, in memory, in blocks of rows."""

    bits: ClassVar[int] = 4
    codes_dtype: ClassVar[torch.dtype] = torch.uint8
    scale_dtype: ClassVar[torch.dtype] = torch.int32
    spread: ClassVar[float] = 4.61
    unit: ClassVar[int] = TILE
    unpacking_bytes: ClassVar[int] = 9  # nibbles, then values and products

    def quantise(self, grouped: Tensor, _wholes: Tensor | None) -> tuple[Tensor, Tensor]:
        low = grouped.amin(dim=-1).half()
        scales = ((grouped.amax(dim=-1) - low.float()) / 15).half()
        divisor = scales.float()[..., None]
        codes = (grouped - low.float()[..., None]) / torch.where(divisor == 0, 1.0, divisor)
        nibbles = codes.round().clamp(0, 15).to(torch.uint8).flatten(1)
        return join_nibbles(nibbles), words_of(scales, low).T

    def store_scales(self, scales: Tensor) -> Tensor:
        return words_of(scales.half(), (-7.5 * scales).half()).transpose(-1, -2)

    def values(self, packed: Packed) -> Tensor:
        if packed.block:
            return _values(split_blocks(packed.codes, packed.block), packed.scales, torch.bfloat16, MIDDLE)
        return _values(split_nibbles(packed.codes), packed.scales, torch.float16)


def rounded(packed: Packed) -> Tensor:
    """Returns the values of a weight in tiles as kernels read them, fp32 (..., out, in)."""
    return _values(split_nibbles(packed.codes), for_blocks(packed.scales), torch.bfloat16, MIDDLE).flatten(-2)


def _values(nibbles: Tensor, words: Tensor, dtype: torch.dtype, zero: int = 0) -> Tensor:
    """Returns fp32 (..., out, groups, 32) of codes (..., out, in), by their scales and the values of the code zero."""
    scales, zeros = (half.float()[..., None] for half in halves_of(words.transpose(-1, -2), dtype))
    codes = nibbles.view(*scales.shape[:-1], -1).float()
    return (codes - zero) * scales + zeros


def words_of(scales: Tensor, minima: Tensor) -> Tensor:
    """Joins scales and minima, or zero points, of the same shape and a 16-bit type to int32 words of that shape."""
    return torch.stack([scales, minima], dim=-1).view(torch.int32)[..., 0]


def halves_of(words: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Returns the low and the high halves of int32 words, in a 16-bit type."""
    halves = words.contiguous()[..., None].view(dtype)
    return halves[..., 0], halves[..., 1]


def for_blocks(words: Tensor) -> Tensor:
    """Returns stored words as those of codes in blocks: bf16 scales, and the values of code 8."""
    scales, minima = (half.float() for half in halves_of(words, torch.float16))
    return words_of(scales.bfloat16(), (minima + MIDDLE * scales).bfloat16())


UINT4 = register(Uint4("uint4-g32", 32))

"""Packed weights: 4-bit and 8-bit codes with their scales, in the one order that disk, memory and kernels share.

Codes and scales of a weight (..., out, in):

- **nf4**: bitsandbytes' 16 normal-float values, absmax over 64 consecutive inputs, stored in bf16.
- **int4**: symmetric, -8 to 7 times a bf16 scale, over 32 or 64 consecutive inputs.
- **int8**: symmetric, -127 to 127 times an fp32 scale, over a whole row.

A 4-bit byte holds two codes of one *tile* of 64 inputs: byte j has input j in its low and input 32 + j in its high
nibble. A kernel so gets two contiguous half tiles by a mask and a shift, with nothing to interleave. Scales are stored
(..., groups, out), so that neighbouring rows' scales are neighbours in memory.

One other order is known, in memory alone: *blocks* of B rows, as the int4 kernels of CPUs read them. There, byte (k, j)
of a block has input k of row j in its low and of row B / 2 + j in its high nibble. It takes the same place.

Knows neither files nor modules. Everything here is plain torch and runs on any device.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import torch
from torch import Tensor

from engine.errors import SafelightError, quoted

TILE = 64  # inputs that share 32 bytes of 4-bit codes
AT_ONCE = 1 << 24  # weights quantised at a time, so that the fp32 copies stay small

# The quantiles of a normal distribution that bitsandbytes' NF4 stands for (source: QLoRA, arXiv 2305.14314).
NF4_VALUES = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


@dataclass(frozen=True)
class Scheme:
    """How one weight is packed."""

    name: str  # "nf4", "int4" or "int8"
    group_size: int  # consecutive inputs that share a scale; 0: the whole row

    def __str__(self) -> str:
        return f"{self.name}-g{self.group_size}" if self.group_size else self.name

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return 8 if self.name == "int8" else 4

    @property
    def codes_dtype(self) -> torch.dtype:
        return torch.int8 if self.name == "int8" else torch.uint8

    @property
    def scale_dtype(self) -> torch.dtype:
        return torch.float32 if self.name == "int8" else torch.bfloat16

    def codes_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the codes of a weight (..., out, in)."""
        return (*shape[:-1], shape[-1] * self.bits // 8)

    def scales_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the scales of a weight (..., out, in)."""
        return (*shape[:-2], shape[-1] // self.group_size if self.group_size else 1, shape[-2])

    def packed_bytes(self, shape: tuple[int, ...]) -> int:
        """Bytes of codes and scales of a weight (..., out, in)."""
        return torch.Size(self.codes_shape(shape)).numel() + (
            torch.Size(self.scales_shape(shape)).numel() * self.scale_dtype.itemsize
        )

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        """
        Raises:
            SafelightError: a weight (..., out, in) of this shape cannot be packed so.
        """
        unit = 1 if self.bits == 8 else TILE
        if shape[-1] % unit:
            raise SafelightError(
                f"{name} has {shape[-1]} inputs, which {self} cannot pack: it needs a multiple of {unit}. Load the "
                "model with quantization none"
            )


NF4 = Scheme("nf4", 64)
INT4 = Scheme("int4", 32)
INT4_G64 = Scheme("int4", 64)
INT8 = Scheme("int8", 0)
SCHEMES = {str(scheme): scheme for scheme in (NF4, INT4, INT4_G64, INT8)}


@dataclass(frozen=True, eq=False)
class Packed:
    """A packed weight: what kernels take.

    codes: (..., out, in / 2) uint8 for 4 bits, (..., out, in) int8 for 8. scales: (..., groups, out).
    block: rows of a block where the codes are in that order; 0 where they are in tiles.
    """

    codes: Tensor
    scales: Tensor
    scheme: Scheme
    block: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weight, (..., out, in)."""
        return (*self.codes.shape[:-1], self.codes.shape[-1] * 8 // self.scheme.bits)

    def rows(self, first: int, end: int) -> Packed:
        """Some rows of a packed (out, in); whole blocks of them."""
        return Packed(self.codes[first:end], self.scales[:, first:end].contiguous(), self.scheme, self.block)

    def __getitem__(self, index: int) -> Packed:
        """One expert's weight of a stack of them."""
        return Packed(self.codes[index], self.scales[index], self.scheme, self.block)


@dataclass(frozen=True)
class Precision:
    """Which part of a model is packed how; ``None`` keeps a part in the model's own number type.

    Experts bear four bits. Attention, dense MLP, self-conditioning and the embedding table do not: there, four bits
    make the sampler take many more steps. Norms, router and scalars are never packed.
    """

    experts: Scheme | None = None
    attention: Scheme | None = None
    dense: Scheme | None = None  # MLP and self-conditioning
    embedding: Scheme | None = None

    @property
    def is_packed(self) -> bool:
        return self != Precision()

    def scheme(self, module: str) -> Scheme | None:
        """How the weights of a layer are packed, by its path in the network."""
        name = f".{module}."
        if ".experts." in name:
            return self.experts
        if ".self_attn." in name:
            return self.attention
        if ".mlp." in name or ".self_conditioning." in name:
            return self.dense
        return self.embedding if ".embed_tokens." in name else None

    def as_dict(self) -> dict[str, str | None]:
        """Part -> scheme, by name."""
        return {field.name: str(scheme) if (scheme := getattr(self, field.name)) else None for field in fields(self)}

    @staticmethod
    def from_dict(raw: object) -> Precision:
        """
        Raises:
            SafelightError: a part or a scheme that this version does not know.
        """
        if not isinstance(raw, dict):
            raise SafelightError(f"the weights are packed in a way this version does not know: {quoted(raw)}")
        for part, scheme in raw.items():
            is_known = scheme is None or (isinstance(scheme, str) and scheme in SCHEMES)
            if part not in Precision().as_dict() or not is_known:
                told = f"{quoted(part)} as {quoted(scheme)}"
                raise SafelightError(f"the weights are packed in a way this version does not know: {told}")
        return Precision(**{part: SCHEMES[scheme] for part, scheme in raw.items() if scheme is not None})


PRECISIONS = {
    "none": Precision(),
    "nf4": Precision(NF4, INT8, INT8, INT8),
    "int4": Precision(INT4, INT8, INT8, INT8),
    "int4-g64": Precision(INT4_G64, INT8, INT8, INT8),
}
"""What ``quantization`` may name, apart from "auto"."""
DEFAULT = "int4"  # smaller error than nf4 at a quarter bit more, and half the instructions to decode


@dataclass(frozen=True)
class Activations:
    """Which products round their activations to int8, 128 of a row at a time, and so run on 8-bit matrix units.

    The rule: all are off, for every model and on every card, until a card has shown that the kernels are right and
    faster. What may then be on is what keeps the steps per canvas within 2 % (``tests.bench.activations``). Until
    then, only a measurement asks for one.
    """

    linears: bool = False  # with 8-bit weights
    head: bool = False
    soft: bool = False  # the soft embedding, whose activations are probabilities

    @property
    def names(self) -> list[str]:
        """Those that do."""
        return [name for name, rounds in asdict(self).items() if rounds]


BF16 = Activations()  # none


def pack(weight: Tensor, scheme: Scheme, name: str = "the weight") -> Packed:
    """Quantise a weight (..., out, in) on the device it is on, a slice at a time.

    Raises:
        SafelightError: the inputs do not divide into the scheme's groups, or a value is not finite.
    """
    scheme.check(name, tuple(weight.shape))
    shape = tuple(weight.shape)
    codes = weight.new_empty(scheme.codes_shape(shape), dtype=scheme.codes_dtype)
    scales = weight.new_empty(scheme.scales_shape(shape), dtype=scheme.scale_dtype)
    inputs = weight.shape[-1]
    stacked = weight.reshape(-1, *weight.shape[-2:])  # (S, out, in)
    rows = max(1, AT_ONCE // inputs)
    for index, matrix in enumerate(stacked):
        code, scale = codes.view(-1, *codes.shape[-2:])[index], scales.view(-1, *scales.shape[-2:])[index]
        for start in range(0, matrix.shape[0], rows):
            part = slice(start, start + rows)
            code[part], scale[:, part] = _pack_rows(matrix[part].float(), scheme, name)
    return Packed(codes, scales, scheme)


def _pack_rows(rows: Tensor, scheme: Scheme, name: str) -> tuple[Tensor, Tensor]:
    """fp32 rows (R, in) -> codes (R, bytes) and scales (groups, R)."""
    grouped = rows.view(rows.shape[0], -1, scheme.group_size or rows.shape[1])  # (R, groups, G)
    low, high = grouped.amin(dim=-1), grouped.amax(dim=-1)
    if not bool(torch.isfinite(high - low).all()):
        raise SafelightError(f"{name} holds values that are not finite; the checkpoint is damaged, download it again")
    extreme = torch.where(high > -low, high, low)
    # int4's range is lopsided: the group's extreme takes -8, whatever its sign, so that no code is wasted.
    span = {"nf4": 1.0, "int4": -8.0, "int8": 127.0}[scheme.name]
    scales = ((extreme if scheme.name == "int4" else extreme.abs()) / span).to(scheme.scale_dtype)
    divisor = scales.float()[..., None]
    scaled = grouped / torch.where(divisor == 0, 1.0, divisor)
    if scheme.name == "int8":
        return scaled.round().clamp(-127, 127).to(torch.int8).view(rows.shape), scales.T
    if scheme.name == "int4":
        nibbles = (scaled.round().clamp(-8, 7) + 8).to(torch.uint8)
    else:
        values = torch.tensor(NF4_VALUES)
        nibbles = torch.zeros_like(scaled, dtype=torch.uint8)
        for midpoint in ((values[1:] + values[:-1]) / 2).tolist():
            nibbles += scaled > midpoint  # several times as fast as bucketize
    return join_nibbles(nibbles.view(rows.shape)), scales.T


def join_nibbles(nibbles: Tensor) -> Tensor:
    """4-bit codes (..., in), one a byte -> (..., in / 2) in tile order."""
    tiles = nibbles.reshape(*nibbles.shape[:-1], -1, 2, TILE // 2)
    joined: Tensor = tiles[..., 0, :] | tiles[..., 1, :] << 4
    return joined.flatten(-2)


def split_nibbles(codes: Tensor) -> Tensor:
    """Packed bytes (..., in / 2) in tile order -> 4-bit codes (..., in), one a byte."""
    tiles = codes.reshape(*codes.shape[:-1], -1, TILE // 2)
    return torch.stack([tiles & 15, tiles >> 4], dim=-2).flatten(-3)


def to_blocks(codes: Tensor, block: int) -> None:
    """Put the 4-bit codes (out, in / 2) of a matrix from tiles into blocks of rows, in place."""
    rows, half = codes.shape
    pairs = codes.view(rows // block, 2, block // 2, half)
    first, second = pairs[:, 0], pairs[:, 1]  # rows j and B / 2 + j
    into = torch.empty(rows // block, half // 32, 2, 32, block // 2, dtype=torch.uint8)  # inputs as (tile, half, place)
    for side, joined in enumerate((first & 15 | second << 4, first >> 4 | second & 0xF0)):
        into[:, :, side] = joined.view(rows // block, block // 2, -1, 32).permute(0, 2, 3, 1)
    codes.copy_(into.view(codes.shape))


def split_blocks(codes: Tensor, block: int) -> Tensor:
    """Packed bytes (..., out, in / 2) in blocks of rows -> 4-bit codes (..., out, in), one a byte."""
    *outer, rows, half = codes.shape
    pairs = codes.reshape(*outer, rows // block, 2 * half, block // 2).transpose(-1, -2)  # (..., B / 2, in)
    return torch.stack([pairs & 15, pairs >> 4], dim=-3).reshape(*outer, rows, 2 * half)


def unpack(packed: Packed, dtype: torch.dtype = torch.float32) -> Tensor:
    """The weight (..., out, in) that a packed one stands for: the oracle of every kernel."""
    scheme = packed.scheme
    if scheme.name == "int8":
        values = packed.codes.float()
    elif scheme.name == "int4":
        nibbles = split_blocks(packed.codes, packed.block) if packed.block else split_nibbles(packed.codes)
        values = nibbles.float() - 8
    else:
        values = torch.tensor(NF4_VALUES, device=packed.codes.device)[split_nibbles(packed.codes).long()]
    scales = packed.scales.transpose(-1, -2).float()  # (..., out, groups)
    grouped = values.reshape(*scales.shape, -1)
    weight: Tensor = grouped * scales[..., None]
    return weight.flatten(-2).to(dtype)

"""A matrix as the kernels in C read it: ``matrix`` of ``products.h``."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import Structure, c_int64, c_void_p
from typing import NamedTuple

import torch
from torch import Tensor

from engine.kernels import cpu_w4a8, native
from engine.quant import INT4, INT4_G64, INT8, INT8_G16, INT8_G32, UINT4, Packed, integers, nibbles

UNIT = 16  # inputs of a row are a multiple of the longest vector
CODES, GROUPS = (INT4, INT4_G64, UINT4), (INT8_G16, INT8_G32)
CODES4, WHOLE8, HALF, SINGLE, GROUPS8 = range(5)  # kinds of numbers in ``products.h``


class NativeMatrix(Structure):
    """``matrix`` of ``products.h``."""

    _fields_ = [
        *[(name, c_int64) for name in ("kind", "rows", "inputs", "group")],
        ("codes", c_void_p),
        ("scales", c_void_p),
        ("width", c_int64),
        ("has_zeros", c_int64),
        ("bias", c_void_p),
        ("added", c_void_p),
        ("additions", c_int64),
    ]


class _LowRank(Structure):
    _fields_ = [
        *[(name, c_void_p) for name in ("down", "up")],
        *[(name, c_int64) for name in ("kind", "rank", "is_text")],
    ]


class Added(NamedTuple):
    """An adapter of a matrix (out, in): scaling * up(down(x)), for rows of text or for those behind them."""

    down: Tensor  # (R, in), bf16 or fp32
    up: Tensor  # (out, R), of the same type
    scaling: float
    is_text: bool


class Projection(NamedTuple):
    """A matrix (out, in), its bias (out,) and its adapters, as a layer holds them."""

    weight: Packed | Tensor
    bias: Tensor | None = None
    added: tuple[Added, ...] = ()

    @property
    def rank(self) -> int:
        """Numbers of a row between the two halves of all adapters."""
        return sum(len(one.down) for one in self.added)


def group_of(projection: Projection) -> int | None:
    """Returns the inputs of a scale of activations, 0 if they are not rounded; None if C does not read the matrix."""
    weight, _, added = projection
    rows, inputs = weight.shape
    if inputs % UNIT or (added and rows % UNIT) or not all(_is_plain(one.down) for one in added):
        return None
    if isinstance(weight, Tensor):
        return 0 if _is_plain(weight) else None
    if weight.scheme in (INT8, *GROUPS):
        return 0 if weight.codes.is_contiguous() else None
    return weight.scheme.group_size if decodes(weight) else None


def _is_plain(numbers: Tensor) -> bool:
    return numbers.dtype in (torch.float32, torch.bfloat16) and numbers.is_contiguous()


class Kept:
    """The tensors that C's structures point to: they live as long as this."""

    def __init__(self) -> None:
        self._parts: list[object] = []

    def place(self, part: Tensor | None) -> int | None:
        """Returns where a tensor's numbers are; None of None."""
        if part is None:
            return None
        self._parts.append(part)
        return int(part.data_ptr())

    def copy(self, source: Tensor | None, copied: Callable[[Tensor], Tensor] = Tensor.float) -> int | None:
        """Returns where a small tensor's numbers are in fp32, copied unless they are that already; None of None."""
        return None if source is None else self.place(copied(source.detach()).contiguous())

    def array(self, parts: Sequence[Structure]) -> int | None:
        """Returns where copies of structures of one type are, one after the other; None without any."""
        if not parts:
            return None
        made = (type(parts[0]) * len(parts))(*parts)
        self._parts.append(made)
        return ctypes.addressof(made)


def matrix(projection: Projection, kept: Kept) -> NativeMatrix:
    """Describes a matrix; what it points to is in ``kept``."""
    weight, bias, added = projection
    (rows, inputs), width, has_zeros, group = weight.shape, 0, False, 0
    scales: Tensor | None = None
    if isinstance(weight, Tensor):
        kind, codes = (HALF if weight.dtype == torch.bfloat16 else SINGLE), weight
    else:
        codes, scales, group = weight.codes, weight.scales, weight.scheme.group_size
        kind = WHOLE8 if weight.scheme == INT8 else GROUPS8 if weight.scheme in GROUPS else CODES4
        if kind == CODES4:
            has_zeros = scales.dtype == torch.int32 or scales.stride(-1) == 2  # words of scale and zero, or such pairs
            width = scales.stride(-2) // scales.stride(-1)
        else:
            scales = scales.T.contiguous()
    return NativeMatrix(
        *(kind, rows, inputs, group, kept.place(codes), kept.place(scales), width, has_zeros, kept.copy(bias)),
        kept.array([_low_rank(one, kept) for one in added]),
        len(added),
    )


def _low_rank(added: Added, kept: Kept) -> _LowRank:
    kind = HALF if added.down.dtype == torch.bfloat16 else SINGLE
    up = kept.copy(added.up, lambda up: up.float().T * added.scaling)
    return _LowRank(kept.place(added.down), up, kind, len(added.down), added.is_text)


def decodes(weight: Packed) -> bool:
    """Returns True if ``decode`` reads a packed (out, in)."""
    return weight.scheme in CODES and weight.block > 0 and weight.block == cpu_w4a8.block()


def decode(weight: Packed, into: Tensor, threads: int = 1) -> None:
    """Decodes 4-bit codes (out, in) in blocks to bf16 or fp32 (in, out), each rounded once.

    Raises:
        SafelightError: memory is short.
    """
    assert into.is_contiguous()
    assert into.shape == weight.shape[::-1]
    kept = Kept()
    own = matrix(Projection(weight), kept)
    status = native.needed().native_decode(ctypes.byref(own), into.data_ptr(), into.dtype == torch.bfloat16, threads)
    native.check(status, "a matrix")


def multiply(x: Tensor, weight: Packed, library: ctypes.CDLL | None = None) -> Tensor:
    """Multiplies x (N, in) by a packed (out, in) with a ``group_of`` -> fp32 (N, out); codes by 16 bits of x.

    Raises:
        SafelightError: memory is short.
    """
    library = library or native.needed()
    x, kept = x.float().contiguous(), Kept()
    own = matrix(Projection(weight), kept)
    (rows, inputs), out = x.shape, x.new_empty(len(x), own.rows)
    groups = inputs // own.group if own.kind == CODES4 else 0
    codes = torch.empty(2, rows, inputs if groups else 0, dtype=torch.int8)
    scales, sums = torch.empty(rows, groups), torch.empty(rows, groups, dtype=torch.int32)
    places = (part.data_ptr() for part in (x, *codes, scales, sums, out))
    native.check(library.native_multiply(ctypes.byref(own), *places, rows, torch.get_num_threads()), "a product")
    return out


def read(file: int, start: int, kind: int, row_bytes: int, into: Packed, threads: int) -> bool:
    """Reads rows of a GGUF type, by its number, from a byte of an open file on; False without a library.

    Args:
        into: room for them, as ``reading.c`` writes it.

    Raises:
        OSError: the file ends before them, or cannot be read.
        ValueError: a scale is not finite.
        SafelightError: memory is short.
    """
    library, (rows, inputs) = native.library(), into.shape
    if library is None:
        return False
    places = into.codes.data_ptr(), into.scales.data_ptr()
    sizes = kind, rows, row_bytes, inputs, into.scales.stride(0)
    status = library.native_read(file, start, *sizes, *places, threads)
    if status == 1:
        raise OSError("the file is too short")
    if status == 2:
        raise ValueError("a scale is not finite")
    native.check(status, "a matrix")
    return True


def to_blocks(weight: Packed, block: int) -> None:
    """Puts the 4-bit codes of a packed (out, in) into blocks of rows, in place; words of minima become zero points.

    Raises:
        SafelightError: memory is short.
    """
    library, codes = native.library(), weight.codes
    words = weight.scales if weight.scheme == UINT4 else None
    if library is None or library.native_block() != block or not (words is None or words.is_contiguous()):
        nibbles.to_blocks(codes, block)
        if words is not None:
            words.copy_(integers.for_blocks(words))
        return
    places = codes.data_ptr(), None if words is None else words.data_ptr()
    native.check(library.native_turn(*places, *weight.shape, torch.get_num_threads()), "a matrix")

"""4-bit experts with activations rounded to int8, by the kernel in C: ``native``.

Activations have a scale for each row and group, as in llama.cpp's Q8_0, and round by half a percent of a group's
largest number at most. The kernel is used only if it agrees with the codes' values; torch's serves without it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from ctypes import CDLL
from typing import NamedTuple

import torch
from torch import Tensor

from engine.config import Activation
from engine.kernels import native
from engine.quant import INT4, INT4_G64, TILE, Packed, to_blocks, unpack

SCHEMES = (INT4, INT4_G64)
ACTIVATIONS: tuple[Activation, ...] = ("silu", "gelu_pytorch_tanh")  # in the order of activation.h


class _Mixture(ctypes.Structure):
    """``mixture`` of experts.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("widen", "narrow", "widen_scales", "narrow_scales")),
        *((name, ctypes.c_void_p) for name in ("x", "counts", "row", "gates", "out")),
        *((name, ctypes.c_int64) for name in ("rows", "pairs", "experts", "hidden", "width")),
        *((name, ctypes.c_int64) for name in ("group", "activation", "threads")),
    )


class Rounded(NamedTuple):
    """Activations (N, in) in int8, by groups."""

    codes: Tensor  # (N, in) int8
    scales: Tensor  # (N, groups) fp32; not finite where a number of the group is not
    sums: Tensor  # (N, groups) int32, of the codes

    @property
    def values(self) -> Tensor:
        """The rounded numbers, fp32 (N, in)."""
        groups = self.codes.view(*self.scales.shape, -1).float()
        return (groups * self.scales[..., None]).flatten(1)


def serves(weight: Packed) -> bool:
    """Returns True if the kernel multiplies by a packed weight as it lies in memory."""
    return weight.block > 0 and weight.scheme in SCHEMES and weight.block == block()


@functools.cache
def block() -> int:
    """Returns the rows of a block that the kernel reads on this processor, 64 or 32; 0 without a kernel."""
    library = native.library()
    return 0 if library is None or not is_right(library) else int(library.native_block())


def rounded(x: Tensor, group: int, library: CDLL | None = None) -> Rounded:
    """Rounds x (N, in) in groups of that many inputs."""
    library = library or native.needed()
    x = x.float().contiguous()
    shape = len(x), x.shape[1] // group
    made = Rounded(x.new_empty(x.shape, dtype=torch.int8), x.new_empty(shape), x.new_empty(shape, dtype=torch.int32))
    codes, *others = (part.data_ptr() for part in made)
    library.native_round(x.data_ptr(), codes, None, *others, *x.shape, group)
    return made


def multiply(x: Rounded, stack: Packed, first: int, counts: Sequence[int], library: CDLL | None = None) -> Tensor:
    """Multiplies rounded x (N, in) by matrices of a packed (E, out, in) in blocks -> fp32 (N, out).

    Args:
        first: index of the first matrix.
        counts: rows of x for it and for each that follows; together N.
    """
    library = library or native.needed()
    _, rows, inputs = stack.shape
    codes, scales = stack.codes[first : first + len(counts)], stack.scales[first : first + len(counts)]
    sizes, out = torch.tensor(counts), torch.empty(len(x.codes), rows)
    pointers = (part.data_ptr() for part in (codes, scales, *x, out, sizes))
    library.native_experts(*pointers, len(counts), rows, inputs, stack.scheme.group_size)
    return out


def joins(gate_up: Packed, down: Packed) -> bool:
    """Returns True if ``experts`` runs experts of these packed weights."""
    # Their width is a multiple of TILE, so that gates and what they multiply are in different blocks.
    return gate_up.scheme == down.scheme and serves(gate_up) and serves(down)


def experts(
    x: Tensor,
    weights: Tensor,
    chosen: Tensor,
    gate_up: Packed,
    down: Packed,
    activation: Activation,
    threads: int,
    library: CDLL | None = None,
) -> Tensor:
    """Runs experts that ``joins`` allows in one call; arguments as ``reference.experts``, x in bf16.

    Raises:
        SafelightError: memory is short.
    """
    library = library or native.needed()
    order = chosen.flatten().argsort(stable=True)
    x, row, gates = x.contiguous(), order // chosen.shape[1], weights.flatten()[order].float()
    counts, out = chosen.flatten().bincount(minlength=len(gate_up.codes)), torch.empty_like(x)
    codes = (gate_up.codes, down.codes, gate_up.scales.contiguous(), down.scales.contiguous())
    pointers = [part.data_ptr() for part in (*codes, x, counts, row, gates, out)]
    sizes = (len(x), len(row), len(counts), x.shape[1], down.shape[-1], down.scheme.group_size)
    asked = _Mixture(*pointers, *sizes, ACTIVATIONS.index(activation), threads)
    native.check(library.native_mixture(ctypes.byref(asked)), "the experts")
    return out


def is_right(library: CDLL) -> bool:
    """Returns True if a library's products are those of the codes' values."""
    rows = int(library.native_block())
    codes = torch.arange(rows * TILE).mul(37).to(torch.uint8).view(2 * rows, TILE // 2)
    scales = torch.arange(1, 4 * rows + 1).view(2, -1).to(torch.bfloat16)
    tiles = Packed(codes.clone(), scales, INT4)
    to_blocks(codes, rows)
    x = rounded(torch.arange(-8.0, 8.0, 1 / 32).view(8, TILE), INT4.group_size, library)
    out = multiply(x, Packed(codes[None], scales[None], INT4, block=rows), 0, [8], library)
    return torch.allclose(out, x.values @ unpack(tiles).T, rtol=1e-3, atol=1.0)

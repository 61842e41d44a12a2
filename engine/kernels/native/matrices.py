"""A matrix as the kernels in C read it: ``matrix`` of ``products.h``."""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_int64, c_void_p
from typing import NamedTuple

import torch
from torch import Tensor

from engine.kernels import cpu_w4a8, native
from engine.quant import INT4, INT4_G64, INT8, INT8_G32, UINT4, Packed

UNIT = 16  # inputs of a row are a multiple of the longest vector
CODES = (INT4, INT4_G64, UINT4)
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
    ]


class Projection(NamedTuple):
    """A matrix (out, in) and its bias (out,), as a layer holds them."""

    weight: Packed | Tensor
    bias: Tensor | None = None


def group_of(projection: Projection) -> int | None:
    """Returns the inputs of a scale of activations, 0 if they are not rounded; None if C does not read the weight."""
    weight, bias = projection
    if bias is not None and bias.dtype not in (torch.float32, torch.bfloat16):
        return None
    if weight.shape[-1] % UNIT:
        return None
    if isinstance(weight, Tensor):
        return 0 if weight.dtype in (torch.float32, torch.bfloat16) and weight.is_contiguous() else None
    if weight.scheme in (INT8, INT8_G32):
        return 0 if weight.codes.is_contiguous() else None
    is_read = weight.scheme in CODES and weight.block > 0 and weight.block == cpu_w4a8.block()
    return weight.scheme.group_size if is_read else None


def matrix(projection: Projection, kept: list[Tensor]) -> NativeMatrix:
    """Describes a matrix; what it points to is appended to ``kept``, which must live as long as it is used."""
    weight, bias = projection
    bias = None if bias is None else bias.float().contiguous()
    (rows, inputs), width, has_zeros = weight.shape, 0, False
    if isinstance(weight, Tensor):
        kind, codes, scales, group = (HALF if weight.dtype == torch.bfloat16 else SINGLE), weight, None, 0
    elif weight.scheme == INT8:
        kind, codes, scales, group = WHOLE8, weight.codes, weight.scales.contiguous(), 0
    elif weight.scheme == INT8_G32:
        kind, codes, scales, group = GROUPS8, weight.codes, weight.scales.T.contiguous(), weight.scheme.group_size
    else:
        kind, codes, scales, group = CODES4, weight.codes, weight.scales, weight.scheme.group_size
        has_zeros = scales.dtype == torch.int32 or scales.stride(-1) == 2  # words of scale and zero, or such pairs
        width = scales.stride(-2) // scales.stride(-1)
    kept += [part for part in (codes, scales, bias) if part is not None]
    places = [None if part is None else part.data_ptr() for part in (codes, scales, bias)]
    return NativeMatrix(kind, rows, inputs, group, *places[:2], width, has_zeros, places[2])


def decodes(weight: Packed) -> bool:
    """Returns True if ``decode`` reads a packed (out, in)."""
    return weight.scheme in CODES and weight.block > 0 and weight.block == cpu_w4a8.block()


def decode(weight: Packed, into: Tensor) -> None:
    """Decodes 4-bit codes (out, in) in blocks to bf16 or fp32 (in, out), each rounded once."""
    library = native.library()
    assert library is not None, "there is no kernel"
    assert into.is_contiguous()
    assert into.shape == weight.shape[::-1]
    own = matrix(Projection(weight), [])
    library.native_decode(ctypes.byref(own), into.data_ptr(), into.dtype == torch.bfloat16)

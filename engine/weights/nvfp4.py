"""NVFP4 as published by modelopt and by compressed-tensors ("nvfp4-pack-quantized"), read without conversion.

A packed weight X is three tensors: codes uint8 (out, in / 2); ``X_scale`` e4m3 (out, in / 16); one fp32 number for the
matrix, which modelopt multiplies by and compressed-tensors divides by. Gate and up of an expert may have different
numbers, and ours keep them. Checkpoints may also have scales for 4-bit activations and for an 8-bit KV cache; both are
ignored.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.errors import SafelightError, quoted
from engine.quant import NVFP4
from engine.weights.compressed_tensors import weights_kind
from engine.weights.layout import Expected, Layout, State, TensorSource
from engine.weights.matrices import Matrix, to_tiles
from engine.weights.safetensors import FLOATING

GROUP = NVFP4.group_size
ALGORITHMS = ("NVFP4", "W4A16_NVFP4")  # modelopt's names; others change the inputs, too, or mix formats
LARGEST_SCALE = 0x7E  # bits of 448; above it are NaN and negative numbers


class NumberNames(NamedTuple):
    """A publisher's names for a matrix's codes and its number."""

    codes: str
    number: str
    divides: bool


MODELOPT = NumberNames("weight", "weight_scale_2", divides=False)
COMPRESSED_TENSORS = NumberNames("weight_packed", "weight_global_scale", divides=True)


def check_modelopt(declared: dict[str, Any], source: str) -> None:
    """Checks modelopt's declaration.

    Raises:
        SafelightError: it is not NVFP4 in groups of 16.
    """
    algorithm, size = declared.get("quant_algo"), declared.get("group_size", GROUP)
    if algorithm not in ALGORITHMS or size != GROUP:
        raise SafelightError(
            f"{source}: modelopt's {quoted(algorithm)} weights in groups of {quoted(size)} cannot be read; only NVFP4 "
            f"in groups of {GROUP}"
        )


def check_compressed_tensors(declared: dict[str, Any], source: str) -> None:
    """Checks compressed-tensors' declaration.

    Raises:
        SafelightError: it is not 4-bit floats in groups of 16.
    """
    bits, kind, _, size = weights_kind(declared, source)
    if (bits, kind, size) != (NVFP4.bits, "float", GROUP):
        raise SafelightError(
            f"{source}: {quoted(bits)}-bit {quoted(kind)} weights in groups of {quoted(size)} cannot be read as NVFP4; "
            f"it has 4-bit floats in groups of {GROUP}"
        )


def tensors(state: State, matrix: Matrix, checkpoint: TensorSource, names: NumberNames) -> Layout:
    """Returns the three tensors of a matrix; its number may be a list of one."""
    (out, inputs), put = matrix.shape, partial(matrix.put, state)
    codes, scale, number = (f"{matrix.name}.{name}" for name in (names.codes, "weight_scale", names.number))

    def put_scales(tensor: Tensor) -> None:
        if not tensor.view(torch.uint8).any() or (tensor.view(torch.uint8) > LARGEST_SCALE).any():
            raise SafelightError(
                f"tensor {scale} holds scales that are not positive numbers, or only zeros; the checkpoint is damaged, "
                "download it again"
            )
        put("scales", NVFP4.store_scales(tensor))

    def put_number(tensor: Tensor) -> None:
        value = tensor.float().reshape(())
        value = 1 / value if names.divides else value
        if not (value > 0 and value.isfinite()):
            raise SafelightError(
                f"tensor {number} is {tensor.item()}, not a positive number; the checkpoint is damaged, download it "
                "again"
            )
        put("matrix_scales", value)

    header = checkpoint.headers.get(number)
    shape = header.shape if header is not None and header.shape in ((), (1,)) else ()
    return {
        codes: Expected((out, inputs // 2), ("U8",), matrix.path, lambda t: put("codes", to_tiles(t))),
        scale: Expected((out, inputs // GROUP), ("F8_E4M3",), matrix.path, put_scales),
        number: Expected(shape, FLOATING, matrix.path, put_number),
    }

"""FP8 weights as they are published, with one scale per matrix, per row, or per block of 128 by 128.

A weight X is e4m3 (out, in), times ``X_scale`` or ``X_scale_inv``, which also multiplies, despite its name. This is
published by compressed-tensors ("float-quantized"), by modelopt ("FP8"), and by DeepSeek, Qwen and Mistral ("fp8"). The
weights are read as values, and kept or packed like those of a bf16 checkpoint. What they declare about activations is
ignored: those keep the model's number type here.

NVFP4 as published by modelopt and by compressed-tensors ("nvfp4-pack-quantized"), read without conversion.

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
from engine.weights.compressed_tensors import ONE, weights_kind
from engine.weights.layout import Expected, Layout, State, TensorSource
from engine.weights.matrices import Matrix, put_values, to_tiles
from engine.weights.safetensors import FLOATING

SCALES = ("weight_scale", "weight_scale_inv")
CODES = ("F8_E4M3",)
SMALLEST_BLOCK, LARGEST_BLOCK = 16, 1024

Block = tuple[int, int]
"""Rows and inputs that share a scale."""


def read_block(declared: dict[str, Any], source: str) -> Block | None:
    """Returns the block that a quantization_config declares; None: scales are of rows or matrices.

    Raises:
        SafelightError: weights other than 8-bit floats are declared, or a block out of range.
    """
    match declared.get("quant_method"):
        case "compressed-tensors":
            bits, kind, symmetric, _ = weights_kind(declared, source)
            if (bits, kind, symmetric) != (8, "float", True):
                raise SafelightError(f"{source}: {quoted(bits)}-bit {quoted(kind)} weights cannot be read as FP8")
            group = next(iter(declared["config_groups"].values()))
            block = group["weights"].get("block_structure")
        case "modelopt":
            block = (128, 128) if declared.get("quant_algo") == "FP8_PB_WO" else None
        case _:
            block = declared.get("weight_block_size")
    if block is None:
        return None
    is_pair = isinstance(block, list | tuple) and len(block) == 2 and all(type(side) is int for side in block)
    if not is_pair or not all(SMALLEST_BLOCK <= side <= LARGEST_BLOCK for side in block):
        raise SafelightError(
            f"{source}: FP8 weights in blocks of {quoted(block)} cannot be read; they are of 128 by 128"
        )
    return (block[0], block[1])


def fp8_tensors(state: State, matrix: Matrix, checkpoint: TensorSource, block: Block | None) -> Layout:
    (out, inputs), name = matrix.shape, f"{matrix.name}.weight"
    scale = next(
        (name_of_scale for part in SCALES if (name_of_scale := f"{matrix.name}.{part}") in checkpoint.headers),
        f"{name}_scale",
    )
    known = [*ONE, (out,), (out, 1)]
    if block is not None:
        across, down = -(-out // block[0]), -(-inputs // block[1])
        known += [(across, down), (across, 1, down, 1)]
    stored = checkpoint.headers.get(scale)
    shape = stored.shape if stored is not None and stored.shape in known else known[-1]

    def put_codes(codes: Tensor) -> None:
        put_values(state, matrix, _values(codes, checkpoint.read(scale).float(), block))

    def check_scales(scales: Tensor) -> None:
        if not bool((scales.isfinite() & (scales > 0)).all()):
            raise SafelightError(f"tensor {scale} holds scales that are not positive; download the model again")

    return {
        name: Expected(matrix.shape, CODES, matrix.path, put_codes),
        scale: Expected(shape, FLOATING, matrix.path, check_scales),
    }


def _values(codes: Tensor, scale: Tensor, block: Block | None) -> Tensor:
    """Multiplies codes (out, in) by their scales, in fp32."""
    values = codes.float()
    if scale.numel() == 1:
        return values.mul_(scale.reshape(()))
    if block is None or scale.shape[0] == len(codes):
        return values.mul_(scale.reshape(-1, 1))
    rows, inputs = block
    for index, of_columns in enumerate(scale.reshape(-(-len(codes) // rows), -1)):
        values[index * rows : (index + 1) * rows] *= of_columns.repeat_interleave(inputs)[: codes.shape[1]]
    return values


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


def nvfp4_tensors(state: State, matrix: Matrix, checkpoint: TensorSource, names: NumberNames) -> Layout:
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

"""The int4 layout of the published AWQ checkpoints (compressed-tensors, "pack-quantized"), read without a detour.

A packed weight X is three tensors: ``X_packed`` int32 (out, in / 8), eight codes a word; ``X_scale`` (out, in /
group); ``X_shape``. A code is the value plus 8.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from engine.errors import SafelightError, quoted
from engine.quant import INT4, INT4_G64, Scheme
from engine.weights.layout import Expected, Layout, State
from engine.weights.matrices import Matrix, to_tiles
from engine.weights.safetensors import FLOATING

GROUPS: dict[object, Scheme] = {32: INT4, 64: INT4_G64}
"""The schemes that the layout holds, by the size of a group."""


def read_scheme(declared: dict[str, Any], source: str) -> Scheme:
    """The packing that a quantization_config of this layout declares.

    Raises:
        SafelightError: another than int4, symmetric, by groups; or several of them mixed.
    """
    bits, kind, symmetric, size = weights_kind(declared, source)
    if bits != 4 or kind != "int" or symmetric is not True or size not in tuple(GROUPS):
        raise SafelightError(
            f"{source}: {quoted(bits)}-bit {kind if kind == 'int' else quoted(kind)} weights (symmetric "
            f"{quoted(symmetric)}, group size {quoted(size)}) cannot be read; only symmetric int4 in groups of 32 or 64"
        )
    return GROUPS[size]


def weights_kind(declared: dict[str, Any], source: str) -> tuple[object, ...]:
    """Bits, type, symmetry and group size of the weights.

    Raises:
        SafelightError: none are declared, or several kinds.
    """
    groups = declared.get("config_groups")
    weights = [
        group.get("weights") if isinstance(group, dict) else None
        for group in (groups.values() if isinstance(groups, dict) else ())
    ]
    kinds = [
        tuple(w.get(fact) for fact in ("num_bits", "type", "symmetric", "group_size")) if isinstance(w, dict) else ()
        for w in weights
    ]
    if not kinds or not kinds[0] or any(kind != kinds[0] for kind in kinds):
        raise SafelightError(f"{source}: quantization_config mixes several kinds of weights; only one is supported")
    return kinds[0]


def tensors(state: State, matrix: Matrix, scheme: Scheme) -> Layout:
    """The three tensors of a matrix."""
    (out, inputs), name = matrix.shape, f"{matrix.name}.weight"

    def same_shape(tensor: Tensor) -> None:
        if tensor.tolist() != [out, inputs]:
            raise SafelightError(f"tensor {name}_shape says {tensor.tolist()}; config.json asks for {[out, inputs]}")

    put = partial(matrix.put, state)
    return {
        f"{name}_packed": Expected((out, inputs // 8), ("I32",), matrix.path, lambda t: put("codes", to_tiles(t))),
        f"{name}_scale": Expected(
            (out, inputs // scheme.group_size), FLOATING, matrix.path, lambda t: put("scales", t.T)
        ),
        f"{name}_shape": Expected((2,), ("I64", "I32"), matrix.path, same_shape),
    }

"""The integer layouts of compressed-tensors: symmetric int4, and int8 with a scale a row, read without conversion.

Int8 in groups is read as values, as our scheme has no scales for groups.

A weight X in "pack-quantized" is three tensors: ``X_packed`` int32 (out, in / codes a word), a code being the value
plus half of the range; ``X_scale`` (out, in / group), or (out, 1) for whole rows; ``X_shape``. In "int-quantized" X
itself is int8 (out, in), and ``X_scale`` (out, 1), or one number.

Symmetric int4 in GPTQ's layout, as AutoRound and GPTQ publish it, read without conversion.

A weight X (out, in) is X.qweight int32 (in / 8, out), eight inputs' codes a word, low nibble first; X.scales (in /
group, out); X.qzeros int32 (in / group, out / 8), the code of zero, which is 8 here; the layout's first version stores
one less. GPTQ also has X.g_idx int32 (in), each input's group, in order here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from engine.errors import SafelightError, quoted
from engine.quant import INT4, INT4_G64, INT8, Scheme
from engine.weights.layout import Expected, Layout, State, TensorSource
from engine.weights.matrices import Matrix, put_values, repeated, to_tiles
from engine.weights.safetensors import FLOATING

WHOLE_ROW = (None, -1)  # group sizes that stand for whole rows
ONE = ((), (1,), (1, 1))  # shapes of one scale for a whole matrix


def read_scheme(declared: dict[str, Any], source: str) -> tuple[Scheme | None, int | None]:
    """Returns the packing that a quantization_config declares, and the size of its groups; None: whole rows.

    Returns:
        No scheme for int8 in groups.

    Raises:
        SafelightError: other weights than symmetric int4 or int8, in groups of another size; or several mixed.
    """
    bits, kind, symmetric, size = weights_kind(declared, source)
    scheme = scheme_of_groups(size)
    is_known = bits in (4, 8) and scheme is not None
    if bits == 8:
        scheme = INT8 if size in WHOLE_ROW else None
    if not is_known or kind != "int" or symmetric is not True:
        raise SafelightError(
            f"{source}: {quoted(bits)}-bit {kind if kind == 'int' else quoted(kind)} weights (symmetric "
            f"{quoted(symmetric)}, group size {quoted(size)}) cannot be read; only symmetric int4 and int8, in "
            "groups of 32 or a multiple of 64, or with a scale a row"
        )
    return scheme, size if isinstance(size, int) and size not in WHOLE_ROW else None


def scheme_of_groups(size: object) -> Scheme | None:
    """Returns the int4 scheme that holds groups of a size exactly, or None.

    Wider groups than ours are several of ours with the same scale.
    """
    if size in WHOLE_ROW:
        return INT4_G64
    if not isinstance(size, int) or isinstance(size, bool):
        return None
    return INT4 if size == 32 else INT4_G64 if size > 0 and size % 64 == 0 else None


def weights_kind(declared: dict[str, Any], source: str) -> tuple[object, ...]:
    """Returns bits, type, symmetry and group size of the weights.

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


def packed_tensors(
    state: State, matrix: Matrix, checkpoint: TensorSource, scheme: Scheme | None, size: int | None
) -> Layout:
    """Returns the tensors of a matrix in "pack-quantized", in groups of ``size`` inputs; None: of whole rows.

    Without a scheme they are int8, and read as values.
    """
    (out, inputs), name = matrix.shape, f"{matrix.name}.weight"

    def same_shape(tensor: Tensor) -> None:
        if tensor.tolist() != [out, inputs]:
            raise SafelightError(f"tensor {name}_shape says {tensor.tolist()}; config.json asks for {[out, inputs]}")

    def put_codes(words: Tensor) -> None:
        if scheme is not None:
            matrix.put(state, "codes", to_tiles(words) if scheme.bits == 4 else to_int8(words))
            return
        scales = checkpoint.read(f"{name}_scale").float()
        put_values(state, matrix, (to_int8(words).view(out, scales.shape[1], -1) * scales[..., None]).flatten(1))

    def put_scales(tensor: Tensor) -> None:
        if scheme is not None:
            matrix.put(state, "scales", repeated(tensor.T, inputs // scheme.group_size if scheme.group_size else 1))

    bits = 8 if scheme is None else scheme.bits
    return {
        f"{name}_packed": Expected((out, inputs * bits // 32), ("I32",), matrix.path, put_codes),
        f"{name}_scale": Expected((out, groups_of(inputs, size)), FLOATING, matrix.path, put_scales),
        f"{name}_shape": Expected((2,), ("I64", "I32"), matrix.path, same_shape),
    }


def groups_of(inputs: int, size: int | None) -> int:
    """Returns the number of groups of ``size`` in a row; None: one."""
    return 1 if size is None else inputs // size


def plain_int8_tensors(state: State, matrix: Matrix, checkpoint: TensorSource) -> Layout:
    """Returns the two tensors of a matrix in "int-quantized"."""
    (out, _), name = matrix.shape, f"{matrix.name}.weight"
    header = checkpoint.headers.get(f"{name}_scale")
    shape = header.shape if header is not None and header.shape in (*ONE, (out,)) else (out, 1)

    def put_scales(tensor: Tensor) -> None:
        matrix.put(state, "scales", tensor.reshape(1, -1).expand(1, out))

    return {
        name: Expected(matrix.shape, ("I8",), matrix.path, partial(matrix.put, state, "codes")),
        f"{name}_scale": Expected(shape, FLOATING, matrix.path, put_scales),
    }


def to_int8(words: Tensor) -> Tensor:
    """Converts words (out, in / 4) of codes, each its value plus 128, low byte first, to int8 (out, in)."""
    return (words.contiguous().view(torch.uint8) ^ 128).view(torch.int8)


PACKINGS = {"auto-round": ("auto_round:auto_gptq", "auto_round:gptq", "auto_round"), "gptq": ("gptq", "gptq_v2")}
ZEROS = (0x7777_7777, 0x8888_8888 - 2**32)  # a word of codes of zero, as int32


def read_gptq_scheme(declared: dict[str, Any], source: str) -> tuple[Scheme, int | None]:
    """Returns the packing that AutoRound or GPTQ declares, and the size of its groups; None: whole rows.

    Raises:
        SafelightError: another than symmetric int4 in groups of 32 or a multiple of 64, in order.
    """
    method = declared["quant_method"]
    packing = declared.get("packing_format") or declared.get("checkpoint_format") or PACKINGS[method][0]
    bits, symmetric, size = (declared.get(name) for name in ("bits", "sym", "group_size"))
    scheme = scheme_of_groups(size)
    if (
        bits != 4
        or symmetric is not True
        or scheme is None
        or declared.get("desc_act")
        or packing not in PACKINGS[method]
        or declared.get("data_type", "int") != "int"
    ):
        raise SafelightError(
            f"{source}: {quoted(method)} weights of {quoted(bits)} bits (symmetric {quoted(symmetric)}, group size "
            f"{quoted(size)}, packed as {quoted(packing)}) cannot be read; only symmetric int4 in GPTQ's layout, in "
            "groups of 32 or a multiple of 64"
        )
    return scheme, None if size in WHOLE_ROW else size


def gptq_tensors(state: State, matrix: Matrix, checkpoint: TensorSource, scheme: Scheme, size: int | None) -> Layout:
    """Returns the tensors of a matrix, in groups of ``size`` inputs; None: of whole rows."""
    (out, inputs), name, put = matrix.shape, matrix.name, partial(matrix.put, state)
    stored_groups, groups = groups_of(inputs, size), inputs // scheme.group_size

    def check_zeros(words: Tensor) -> None:
        if not any(bool((words == zero).all()) for zero in ZEROS):
            raise SafelightError(
                f"tensor {name}.qzeros has zeros that symmetric codes do not have; use a checkpoint quantised "
                "symmetrically"
            )

    def check_order(places: Tensor) -> None:
        if not torch.equal(places, (torch.arange(inputs) // (inputs // stored_groups)).to(places.dtype)):
            raise SafelightError(
                f"tensor {name}.g_idx puts inputs in another order; use a checkpoint quantised with desc_act off"
            )

    layout = {
        f"{name}.qweight": Expected((inputs // 8, out), ("I32",), matrix.path, lambda t: put("codes", to_tiles(t.T))),
        f"{name}.scales": Expected(
            (stored_groups, out), FLOATING, matrix.path, lambda t: put("scales", repeated(t, groups))
        ),
        f"{name}.qzeros": Expected((stored_groups, out // 8), ("I32",), matrix.path, check_zeros),
    }
    if f"{name}.g_idx" in checkpoint.headers:
        layout[f"{name}.g_idx"] = Expected((inputs,), ("I32", "I64"), matrix.path, check_order)
    return layout

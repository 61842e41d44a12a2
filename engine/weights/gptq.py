"""Symmetric int4 in GPTQ's layout, as AutoRound and GPTQ publish it, read without conversion.

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
from engine.quant import Scheme
from engine.weights.compressed_tensors import WHOLE_ROW, groups_of, scheme_of_groups
from engine.weights.layout import Expected, Layout, State, TensorSource
from engine.weights.matrices import Matrix, repeated, to_tiles
from engine.weights.safetensors import FLOATING

PACKINGS = {"auto-round": ("auto_round:auto_gptq", "auto_round:gptq", "auto_round"), "gptq": ("gptq", "gptq_v2")}
ZEROS = (0x7777_7777, 0x8888_8888 - 2**32)  # a word of codes of zero, as int32


def read_scheme(declared: dict[str, Any], source: str) -> tuple[Scheme, int | None]:
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


def tensors(state: State, matrix: Matrix, checkpoint: TensorSource, scheme: Scheme, size: int | None) -> Layout:
    """Returns the tensors of a matrix, in groups of ``size`` inputs; None: of whole rows."""
    (out, inputs), name, put = matrix.shape, matrix.name, partial(matrix.put, state)
    found, groups = groups_of(inputs, size), inputs // scheme.group_size

    def check_zeros(words: Tensor) -> None:
        if not any(bool((words == zero).all()) for zero in ZEROS):
            raise SafelightError(
                f"tensor {name}.qzeros has zeros that symmetric codes do not have; use a checkpoint quantised "
                "symmetrically"
            )

    def check_order(places: Tensor) -> None:
        if not torch.equal(places, (torch.arange(inputs) // (inputs // found)).to(places.dtype)):
            raise SafelightError(
                f"tensor {name}.g_idx puts inputs in another order; use a checkpoint quantised with desc_act off"
            )

    layout = {
        f"{name}.qweight": Expected((inputs // 8, out), ("I32",), matrix.path, lambda t: put("codes", to_tiles(t.T))),
        f"{name}.scales": Expected((found, out), FLOATING, matrix.path, lambda t: put("scales", repeated(t, groups))),
        f"{name}.qzeros": Expected((found, out // 8), ("I32",), matrix.path, check_zeros),
    }
    if f"{name}.g_idx" in checkpoint.headers:
        layout[f"{name}.g_idx"] = Expected((inputs,), ("I32", "I64"), matrix.path, check_order)
    return layout

"""The int4 layout of the published AWQ checkpoints (compressed-tensors, "pack-quantized"), read without a detour.

A packed weight X is three tensors: ``X_packed`` int32 (out, in / 8), eight codes a word, low nibble first;
``X_scale`` (out, in / group); ``X_shape``. A code is the value plus 8. Experts are stored one by one, gate and up
apart.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.errors import SafelightError, quoted
from engine.layers.packed_linear import PackedWeight
from engine.quant import INT4, INT4_G64, INT8, Precision, Scheme, join_nibbles
from engine.weights.layout import Expected, Layout, Names, State, released
from engine.weights.safetensors import FLOATING, Checkpoint

PUBLISHED: dict[object, Scheme] = {32: INT4, 64: INT4_G64}
"""The schemes that the layout holds, by the size of a group."""


def read_scheme(quantization: object) -> Scheme:
    """The packing that ``quantization_config`` of a config.json declares.

    Raises:
        SafelightError: another method or format than int4, symmetric, by groups; or several of them mixed.
    """
    declared = quantization if isinstance(quantization, dict) else {}
    method, layout = declared.get("quant_method"), declared.get("format")
    if method != "compressed-tensors" or layout != "pack-quantized":
        raise SafelightError(
            f"config.json: weights quantised as {quoted(method)} ({quoted(layout)}) cannot be read; use a checkpoint "
            "in bf16 or in compressed-tensors' pack-quantized int4"
        )
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
        raise SafelightError("config.json: quantization_config mixes several kinds of weights; only one is supported")
    bits, kind, symmetric, size = kinds[0]
    if bits != 4 or kind != "int" or symmetric is not True or size not in tuple(PUBLISHED):
        raise SafelightError(
            f"config.json: {quoted(bits)}-bit {kind if kind == 'int' else quoted(kind)} weights (symmetric "
            f"{quoted(symmetric)}, group size {quoted(size)}) cannot be read; only symmetric int4 in groups of 32 or 64"
        )
    return PUBLISHED[size]


def precision(scheme: Scheme, checkpoint: Checkpoint) -> Precision:
    """What the checkpoint packs stays as it is; of the rest, what we pack goes to eight bits."""

    def is_there(part: str) -> bool:
        return any(part in name and name.endswith(".weight_packed") for name in checkpoint.headers)

    attention, dense = (scheme if is_there(part) else INT8 for part in (".self_attn.", ".mlp."))
    return Precision(scheme if is_there(".experts.") else None, attention, dense, INT8)


def compressed(state: State, names: Names) -> Layout:
    """The published layout, for a network in which ``precision`` is installed."""
    layout = released(state, names)
    for path, module in state.packed.items():
        if module.scheme not in PUBLISHED.values():
            continue
        name = names.released(path)
        del layout[name]
        if len(module.shape) == 2:
            layout |= _packed(state, path, name.removesuffix(".weight"), module.shape, module, (), slice(None))
            continue
        base, _, proj = name.rpartition(".")
        experts, out, inputs = module.shape
        for expert in range(experts):
            halves = ("gate_proj", "up_proj") if proj == "gate_up_proj" else ("down_proj",)
            rows = out // len(halves)
            for index, half in enumerate(halves):
                part = slice(index * rows, (index + 1) * rows)
                layout |= _packed(state, path, f"{base}.{expert}.{half}", (rows, inputs), module, (expert,), part)
    return layout


def _packed(
    state: State, path: str, name: str, shape: tuple[int, ...], module: PackedWeight, at: tuple[int, ...], rows: slice
) -> Layout:
    """The three tensors of one matrix, which fills ``rows`` of the weight ``path`` (of its expert ``at``)."""
    out, inputs = shape

    def codes(words: Tensor) -> None:
        state.put_into(path, "codes", (*at, rows), unpack_words(words))

    def scales(tensor: Tensor) -> None:
        state.put_into(path, "scales", (*at, slice(None), rows), tensor.T)

    def same_shape(tensor: Tensor) -> None:
        if tensor.tolist() != [out, inputs]:
            raise SafelightError(
                f"tensor {name}.weight_shape says {tensor.tolist()}; config.json asks for {[out, inputs]}"
            )

    return {
        f"{name}.weight_packed": Expected((out, inputs // 8), ("I32",), path, codes),
        f"{name}.weight_scale": Expected((out, inputs // module.scheme.group_size), FLOATING, path, scales),
        f"{name}.weight_shape": Expected((2,), ("I64", "I32"), path, same_shape),
    }


def unpack_words(words: Tensor) -> Tensor:
    """int32 (out, in / 8), low nibble first -> our bytes (out, in / 2)."""
    pairs = words.contiguous().view(torch.uint8)  # (out, in / 2): even input low, odd input high
    return join_nibbles(torch.stack([pairs & 15, pairs >> 4], dim=-1).flatten(-2))

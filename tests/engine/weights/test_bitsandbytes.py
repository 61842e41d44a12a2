"""Layouts of bitsandbytes that transformers does not write here, made by the library; and what is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine import SafelightError
from engine.files import write_json
from engine.models.folder import ModelFolder
from engine.models.registry import family_of
from engine.quant import INT8, NF4_F32, Precision, unpack
from engine.weights.bitsandbytes import STATE_BYTES
from engine.weights.loader import Weights
from engine.weights.matrices import matrices
from tests.engine.golden.llada2_reference import SMALL
from tests.engine.models.test_masked_families import LLADA, QWEN3
from tests.engine.published import PUBLISHED
from tests.engine.tiny import change_weights

if TYPE_CHECKING:
    from bitsandbytes.functional import QuantState

Tensors = dict[str, Tensor]
WIDE = {"hidden_size": 128, "intermediate_size": 192, "vocab_size": 100, "num_hidden_layers": 2, "head_dim": 32}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "layer_types": ["full_attention"] * 2}
ENDS = {"eos_token_id": 1, "bos_token_id": 2, "pad_token_id": 0, "mask_token_id": 5}
SMALL_QWEN = {**QWEN3, **WIDE, **HEADS, **ENDS, "model_type": "qwen3", "max_window_layers": 2}
FAMILIES: dict[str, dict[str, Any]] = {
    "llada": {
        **LLADA,
        **{"d_model": 128, "embedding_size": 100, "vocab_size": 100, "mlp_hidden_size": 192, "n_heads": 4},
        **{"n_kv_heads": 4, "n_layers": 2, "eos_token_id": 1, "pad_token_id": 0, "mask_token_id": 5},
    },
    "llada2": {**SMALL, "hidden_size": 64, "moe_intermediate_size": 64, "intermediate_size": 128},
    "llada-moe": {
        **PUBLISHED["LLaDA-MoE-7B-A1B"].raw,
        **{"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4},
        **{"expert_intermediate_size": 64, "num_experts": 4, "num_experts_per_tok": 2, "vocab_size": 100},
        **{"moe_layer_freq": [1, 1], "eos_token_id": 1, "pad_token_id": 0, "mask_token_id": 5},
    },
}


def four_bit(name: str, weight: Tensor, kind: str = "nf4", nested: bool = True, **how: Any) -> tuple[Tensors, Tensor]:
    """The tensors of a weight as ``Linear4bit`` saves them, and what they stand for, by the library's code in torch."""
    from bitsandbytes import functional  # seconds, in each process that collects the tests

    codes, state = functional.quantize_4bit(weight, quant_type=kind, compress_statistics=nested, **how)
    parts = {f"{name}.{part}": tensor.contiguous() for part, tensor in state.as_dict(packed=True).items()}
    return {name: codes, **parts}, dequantized(codes, state)


def dequantized(codes: Tensor, state: QuantState) -> Tensor:
    """Returns the library's values of codes. Its code for AVX-512 is wrong where blocks end within a row."""
    from bitsandbytes import functional  # seconds, in each process that collects the tests
    from bitsandbytes.backends.default.ops import _dequantize_4bit_compute as dequantize_in_torch

    absmax = state.absmax
    if state.nested:
        absmax = functional.dequantize_blockwise(absmax, state.state2) + state.offset
    whole: Any = dequantize_in_torch
    flat = codes.view(torch.uint8).reshape(-1)
    found: Tensor = whole.__wrapped__(flat, absmax, state.code, state.blocksize, state.shape, torch.float32)
    return found


def eight_bit(name: str, weight: Tensor) -> tuple[Tensors, Tensor]:
    """Returns the same of ``Linear8bitLt``."""
    from bitsandbytes import functional  # seconds, in each process that collects the tests

    codes, rows, _ = functional.int8_vectorwise_quant(weight)
    layer = name.removesuffix(".weight")
    return {name: codes, f"{layer}.SCB": rows}, functional.int8_vectorwise_dequant(codes, rows)


def written(
    folder: Path, raw: dict[str, Any], quantise: Callable[[str, Tensor], tuple[Tensors, Tensor]], eight: bool = False
) -> Tensors:
    """Write a random model all of whose layers, but the table and the head, are quantised, a router's as well.

    Returns the weights that it has, by their paths in the network.
    """
    family = family_of(raw)
    with torch.device("meta"):
        network = family.build(family.read_config(raw))
    draws = torch.Generator().manual_seed(0)
    tensors, meant = Tensors(), Tensors()
    for path, parameter in network.named_parameters():
        shape, name = tuple(parameter.shape), family.names.released(path)
        weight = torch.randn(shape, generator=draws)
        if len(shape) < 2 or "embed_tokens" in path or "lm_head" in path:
            tensors[name], meant[path] = weight, weight
            continue
        values = []
        for matrix in matrices(path, name, shape):
            own = weight if not matrix.at else weight[matrix.at][matrix.place[-1]]
            packed, value = quantise(f"{matrix.name}.weight", own.contiguous())
            tensors |= packed
            values.append(value)
        meant[path] = values[0] if len(shape) == 2 else torch.cat(values).view(shape)
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    declared = {"load_in_8bit": True} if eight else {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    write_json(folder / "config.json", raw | {"quantization_config": {"quant_method": "bitsandbytes", **declared}})
    return meant


def opened(folder: Path) -> Weights[Any]:
    return ModelFolder.open(folder).weights("auto", torch.device("cpu"), torch.float32)


def assert_loads(weights: Weights[Any], meant: Tensors, rtol: float = 0) -> None:
    network = weights.load()
    packed = {path: unpack(network.get_submodule(path).packed) for path in weights.state.packed}
    found = packed | {name: own for name, own in network.named_parameters() if name not in packed}
    assert found.keys() == meant.keys()
    for path, values in found.items():
        torch.testing.assert_close(values, meant[path], rtol=rtol, atol=0, msg=path)


@pytest.mark.parametrize(("name", "bits"), [*((name, 4) for name in FAMILIES), ("llada", 8), ("llada-moe", 8)])
def test_tensors_are_found_by_their_names_and_experts_one_by_one(name: str, bits: int, tmp_path: Path) -> None:
    meant = written(tmp_path / "tiny", FAMILIES[name], four_bit if bits == 4 else eight_bit, bits == 8)
    weights, scheme = opened(tmp_path / "tiny"), NF4_F32 if bits == 4 else INT8
    experts = scheme if name in ("llada2", "llada-moe") else None
    assert (weights.precision.experts, weights.precision.embedding) == (experts, None)
    assert weights.precision.attention == scheme
    assert_loads(weights, meant, 0 if bits == 4 else 2**-22)


@pytest.mark.parametrize(
    ("how", "is_kept"),
    [
        *(({"blocksize": size}, True) for size in (64, 128, 4096)),  # also those that go on from row to row
        ({"blocksize": 32}, False),
        ({"quant_storage": torch.bfloat16}, True),
        ({"quant_storage": torch.float32}, True),
    ],
)
def test_codes_are_kept_unless_their_blocks_are_narrower(how: dict[str, Any], is_kept: bool, tmp_path: Path) -> None:
    meant = written(tmp_path / "tiny", SMALL_QWEN, partial(four_bit, **how))
    weights = opened(tmp_path / "tiny")
    assert weights.precision == (Precision(attention=NF4_F32, dense=NF4_F32) if is_kept else Precision())
    assert_loads(weights, meant)


def test_an_expert_that_was_skipped_leaves_its_layer_unpacked(tmp_path: Path) -> None:
    def skips(name: str, weight: Tensor) -> tuple[Tensors, Tensor]:
        return ({name: weight}, weight) if "layers.1.mlp.experts.2.up_proj" in name else four_bit(name, weight)

    meant = written(tmp_path / "tiny", FAMILIES["llada-moe"], skips)
    weights = opened(tmp_path / "tiny")
    assert weights.precision.others == {("layers.1.mlp.experts", None)}
    assert_loads(weights, meant)


def test_experts_in_one_piece_are_refused_by_name(tmp_path: Path) -> None:
    written(tmp_path / "tiny", FAMILIES["llada-moe"], four_bit)
    packed, _ = four_bit("model.layers.1.mlp.experts.gate_up_proj", torch.randn(4, 128, 128))
    change_weights(tmp_path / "tiny", packed)
    with pytest.raises(SafelightError, match=r"experts\.gate_up_proj holds all experts of a layer"):
        opened(tmp_path / "tiny")


LAYER = "model.layers.1.mlp.up_proj"
STATE = f"{LAYER}.weight.quant_state.bitsandbytes__nf4"


def described(**changes: Any) -> dict[str, Tensor]:
    facts = {"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [192, 128]}
    nested = {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.5}
    return {STATE: torch.tensor(list(json.dumps(facts | nested | changes).encode()), dtype=torch.uint8)}


@pytest.mark.parametrize(
    ("bits", "changes", "message"),
    [
        (4, described(shape=[128, 192]), "does not describe [192, 128] codes"),
        (4, described(blocksize=128), "absmax holds no scale for each block"),
        (4, described(nested_blocksize=128), "does not describe its nested scales"),
        (4, described(nested_offset=math.nan), "absmax holds no scale for each block"),
        (4, {STATE: torch.zeros(STATE_BYTES + 1, dtype=torch.uint8)}, "bitsandbytes__nf4 has shape (4097,)"),
        (4, {f"{LAYER}.weight.quant_map": torch.linspace(-1, 1, 16)}, "quant_map holds other values"),
        (4, {f"{LAYER}.weight.nested_quant_map": torch.zeros(255)}, "nested_quant_map has shape (255,)"),
        (4, {f"{LAYER}.weight.nested_absmax": torch.zeros(3)}, "does not describe its nested scales"),
        (4, {f"{LAYER}.weight.absmax": torch.zeros(7)}, "nested_absmax is not part of this model"),
        (4, {f"{LAYER}.weight": torch.zeros(192 * 128, 1, dtype=torch.uint8)}, "weight has shape (24576, 1)"),
        (4, {f"{LAYER}.weight": torch.zeros(192 * 64, 1, dtype=torch.int8)}, "up_proj.weight has the type I8"),
        (4, {f"{LAYER}.weight.other": torch.zeros(1)}, "up_proj.weight.other is not part of this model"),
        (8, {f"{LAYER}.SCB": torch.full((192,), math.nan)}, "SCB holds scales that are not positive"),
        (8, {f"{LAYER}.SCB": torch.ones(191)}, "SCB has shape (191,)"),
        (8, {f"{LAYER}.weight_format": torch.tensor(2).byte()}, "asks for codes in another order"),
    ],
)
def test_damaged_tensors_are_refused(bits: int, changes: Tensors, message: str, tmp_path: Path) -> None:
    written(tmp_path / "tiny", SMALL_QWEN, four_bit if bits == 4 else eight_bit, bits == 8)
    change_weights(tmp_path / "tiny", changes)
    with pytest.raises(SafelightError, match=re.escape(message)):
        opened(tmp_path / "tiny").load()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"load_in_4bit": True}, "weights of bitsandbytes' type"),
        ({"bnb_4bit_quant_type": "nf4"}, "weights of bitsandbytes' type"),
        ({"load_in_4bit": 1}, "weights of bitsandbytes' type"),
        ({"load_in_8bit": True}, "packed as nf4-g64-f32; config.json declares int8"),
        ({"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}, "as nf4-g64-f32; config.json declares fp4-g64-f32"),
    ],
)
def test_other_codes_than_declared_are_refused(declared: dict[str, Any], message: str, tmp_path: Path) -> None:
    written(tmp_path / "tiny", SMALL_QWEN, four_bit)
    config = SMALL_QWEN | {"quantization_config": {"quant_method": "bitsandbytes", **declared}}
    write_json(tmp_path / "tiny/config.json", config)
    with pytest.raises(SafelightError, match=message):
        opened(tmp_path / "tiny")

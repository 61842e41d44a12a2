"""Layouts of bitsandbytes that transformers does not write here, made by the library; and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from bitsandbytes import functional
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute as dequantize_in_torch
from bitsandbytes.functional import QuantState
from safetensors.torch import load_file, save_file
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
from tests.engine.models.test_masked_families import DREAM, LLADA, QWEN3
from tests.engine.published import PUBLISHED
from tests.engine.tiny import change_weights

CPU, META = torch.device("cpu"), torch.device("meta")
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
    "dream": {**DREAM, **WIDE, **HEADS, **ENDS, "max_window_layers": 2},
    "dllm": {**SMALL_QWEN, "model_type": "a2d-qwen3"},
    "llada2": {**SMALL, "hidden_size": 64, "moe_intermediate_size": 64, "intermediate_size": 128},
    "llada-moe": {
        **PUBLISHED["LLaDA-MoE-7B-A1B"].raw,
        **{"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4},
        **{"expert_intermediate_size": 64, "num_experts": 4, "num_experts_per_tok": 2, "vocab_size": 100},
        **{"moe_layer_freq": [1, 1], "eos_token_id": 1, "pad_token_id": 0, "mask_token_id": 5},
    },
    "rnd1": {
        **PUBLISHED["RND1"].raw,
        **{"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
        **{"moe_intermediate_size": 64, "num_experts": 4, "num_experts_per_tok": 2, "vocab_size": 100, "head_dim": 32},
        **{"mask_token_id": 5, "eos_token_id": 1, "bos_token_id": 2, "pad_token_id": 0, "max_window_layers": 2},
    },
}


def four_bit(name: str, weight: Tensor, kind: str = "nf4", nested: bool = True, **how: Any) -> tuple[Tensors, Tensor]:
    """The tensors of a weight as ``Linear4bit`` saves them, and what they stand for, by the library's code in torch."""
    codes, state = functional.quantize_4bit(weight, quant_type=kind, compress_statistics=nested, **how)
    parts = {f"{name}.{part}": tensor.contiguous() for part, tensor in state.as_dict(packed=True).items()}
    return {name: codes, **parts}, dequantized(codes, state)


def dequantized(codes: Tensor, state: QuantState) -> Tensor:
    """What the library makes of codes. Its code for AVX-512 is wrong where blocks end within a row."""
    absmax = state.absmax
    if state.nested:
        absmax = functional.dequantize_blockwise(absmax, state.state2) + state.offset
    whole: Any = dequantize_in_torch
    flat = codes.view(torch.uint8).reshape(-1)
    found: Tensor = whole.__wrapped__(flat, absmax, state.code, state.blocksize, state.shape, torch.float32)
    return found


def eight_bit(name: str, weight: Tensor) -> tuple[Tensors, Tensor]:
    """As ``four_bit``, of ``Linear8bitLt``."""
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
    return ModelFolder.open(folder).weights("auto", CPU, torch.float32)


def loaded(weights: Weights[Any]) -> Tensors:
    """All weights as values, by their paths."""
    network = weights.load()
    packed = {path: unpack(network.get_submodule(path).packed) for path in weights.state.packed}
    return packed | {name: own for name, own in network.named_parameters() if name not in packed}


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_and_experts_one_by_one(name: str, bits: int, tmp_path: Path) -> None:
    meant = written(tmp_path / "tiny", FAMILIES[name], four_bit if bits == 4 else eight_bit, bits == 8)
    weights = opened(tmp_path / "tiny")
    scheme = NF4_F32 if bits == 4 else INT8
    experts = scheme if name in ("llada2", "llada-moe", "rnd1") else None
    assert (weights.precision.experts, weights.precision.embedding) == (experts, None)
    assert weights.precision.attention == scheme
    found = loaded(weights)
    assert found.keys() == meant.keys()
    for path, values in found.items():
        torch.testing.assert_close(values, meant[path], rtol=0 if bits == 4 else 2**-22, atol=0, msg=path)


@pytest.mark.parametrize("size", [64, 128, 4096])
def test_wider_blocks_keep_their_codes(size: int, tmp_path: Path) -> None:
    """Also those that go on from row to row."""
    meant = written(tmp_path / "tiny", SMALL_QWEN, partial(four_bit, blocksize=size))
    weights = opened(tmp_path / "tiny")
    assert weights.precision == Precision(attention=NF4_F32, dense=NF4_F32)
    for path, values in loaded(weights).items():
        assert torch.equal(values, meant[path]), path


def test_narrower_blocks_are_read_as_values(tmp_path: Path) -> None:
    meant = written(tmp_path / "tiny", SMALL_QWEN, partial(four_bit, blocksize=32))
    weights = opened(tmp_path / "tiny")
    assert weights.precision == Precision()
    for path, values in loaded(weights).items():
        assert torch.equal(values, meant[path]), path


@pytest.mark.parametrize("storage", [torch.bfloat16, torch.float32])
def test_codes_may_be_stored_as_wider_numbers(storage: torch.dtype, tmp_path: Path) -> None:
    meant = written(tmp_path / "tiny", SMALL_QWEN, partial(four_bit, quant_storage=storage))
    for path, values in loaded(opened(tmp_path / "tiny")).items():
        assert torch.equal(values, meant[path]), path


def test_an_expert_that_was_skipped_leaves_its_layer_unpacked(tmp_path: Path) -> None:
    def skips(name: str, weight: Tensor) -> tuple[Tensors, Tensor]:
        return ({name: weight}, weight) if "layers.1.mlp.experts.2.up_proj" in name else four_bit(name, weight)

    meant = written(tmp_path / "tiny", FAMILIES["llada-moe"], skips)
    weights = opened(tmp_path / "tiny")
    assert weights.precision.others == {("layers.1.mlp.experts", None)}
    for path, values in loaded(weights).items():
        assert torch.equal(values, meant[path]), path


def test_experts_in_one_piece_are_refused_by_name(tmp_path: Path) -> None:
    written(tmp_path / "tiny", FAMILIES["llada-moe"], four_bit)
    packed, _ = four_bit("model.layers.1.mlp.experts.gate_up_proj", torch.randn(4, 128, 128))
    change_weights(tmp_path / "tiny", packed)
    with pytest.raises(SafelightError, match=r"experts\.gate_up_proj holds all experts of a layer"):
        opened(tmp_path / "tiny")


LAYER = "model.layers.1.mlp.up_proj.weight"
STATE = f"{LAYER}.quant_state.bitsandbytes__nf4"


def described(**changes: Any) -> Tensor:
    facts = {"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [192, 128]}
    nested = {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.5}
    return torch.tensor(list(json.dumps(facts | nested | changes).encode()), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({STATE: described(shape=[128, 192])}, "does not describe [192, 128] codes"),
        ({STATE: described(blocksize=128)}, "absmax holds no scale for each block"),
        ({STATE: described(nested_blocksize=128)}, "does not describe its nested scales"),
        ({STATE: described(nested_offset=math.nan)}, "absmax holds no scale for each block"),
        ({STATE: torch.zeros(STATE_BYTES + 1, dtype=torch.uint8)}, "bitsandbytes__nf4 has shape (4097,)"),
        ({f"{LAYER}.quant_map": torch.linspace(-1, 1, 16)}, "quant_map holds other values than those of nf4"),
        ({f"{LAYER}.nested_quant_map": torch.zeros(255)}, "nested_quant_map has shape (255,)"),
        ({f"{LAYER}.nested_absmax": torch.zeros(3)}, "does not describe its nested scales"),
        ({f"{LAYER}.absmax": torch.zeros(7)}, "nested_absmax is not part of this model"),
        ({LAYER: torch.zeros(192 * 128, 1, dtype=torch.uint8)}, "up_proj.weight has shape (24576, 1)"),
        ({LAYER: torch.zeros(192 * 64, 1, dtype=torch.int8)}, "up_proj.weight has the type I8"),
        ({f"{LAYER}.other": torch.zeros(1)}, "up_proj.weight.other is not part of this model"),
    ],
)
def test_what_is_damaged_is_refused_in_a_line(changes: dict[str, Tensor | None], said: str, tmp_path: Path) -> None:
    written(tmp_path / "tiny", SMALL_QWEN, four_bit)
    file = tmp_path / "tiny/model.safetensors"
    save_file({name: own for name, own in (load_file(file) | changes).items() if own is not None}, file)
    with pytest.raises(SafelightError) as error:
        opened(tmp_path / "tiny").load()
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model.layers.0.mlp.up_proj.SCB": torch.full((192,), math.nan)}, "SCB holds scales that are not positive"),
        ({"model.layers.0.mlp.up_proj.SCB": torch.ones(191)}, "SCB has shape (191,)"),
        ({"model.layers.0.mlp.up_proj.weight_format": torch.tensor(2).byte()}, "asks for codes in another order"),
    ],
)
def test_what_is_damaged_in_8_bits_is_refused_in_a_line(changes: Tensors, said: str, tmp_path: Path) -> None:
    written(tmp_path / "tiny", SMALL_QWEN, eight_bit, eight=True)
    change_weights(tmp_path / "tiny", changes)
    with pytest.raises(SafelightError) as error:
        opened(tmp_path / "tiny").load()
    assert said in str(error.value)


@pytest.mark.parametrize("declared", [{"load_in_4bit": True}, {"bnb_4bit_quant_type": "nf4"}, {"load_in_4bit": 1}])
def test_what_is_declared_otherwise_is_refused(declared: dict[str, Any], tmp_path: Path) -> None:
    config = SMALL_QWEN | {"quantization_config": {"quant_method": "bitsandbytes", **declared}}
    write_json(tmp_path / "config.json", config)
    with pytest.raises(SafelightError, match=r"config\.json: weights of bitsandbytes' type"):
        assert ModelFolder.open(tmp_path).published


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"load_in_8bit": True}, "packed as nf4-g64-f32; config.json declares int8"),
        ({"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}, "as nf4-g64-f32; config.json declares fp4-g64-f32"),
    ],
)
def test_other_codes_than_declared_are_refused(declared: dict[str, Any], said: str, tmp_path: Path) -> None:
    written(tmp_path / "tiny", SMALL_QWEN, four_bit)
    config = SMALL_QWEN | {"quantization_config": {"quant_method": "bitsandbytes", **declared}}
    write_json(tmp_path / "tiny/config.json", config)
    with pytest.raises(SafelightError, match=said):
        opened(tmp_path / "tiny")

"""LLaDA2, read from checkpoints as they are published, against a plain statement of it."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from engine import SafelightError
from engine.adapters.lora import Place
from engine.catalog import shape
from engine.files import read_json, write_json
from engine.memory.plan import CONTEXT
from engine.models.causal.llada2 import TARGETS
from engine.models.causal.llada2 import read_llada2 as read_config
from engine.models.causal.network import CausalNetwork, build
from engine.models.folder import ModelFolder, quantize
from engine.models.opening import run_settings
from engine.quant import INT8, PRECISIONS, pack, unpack
from tests.engine.golden.causal_reference import check_passes
from tests.engine.golden.llada2_reference import SMALL, Tensors, drawn, logits, save, shapes
from tests.engine.golden.test_published_shapes import sparse
from tests.engine.packing import SCHEME, quantise, set_quantization

CPU = torch.device("cpu")
CASES: dict[str, dict[str, Any]] = {
    "as published, in small": {},
    "few experts, all of them run": {"num_experts": 8, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 4},
    "no groups": {"n_group": 1, "topk_group": 1, "num_shared_experts": 2, "routed_scaling_factor": 1.0},
    "one expert a token": {"num_experts_per_tok": 1, "num_shared_experts": 0, "first_k_dense_replace": 0},
    "odd, half of a head turns": {"head_dim": 12, "num_attention_heads": 3, "num_key_value_heads": 1},
}
MINI = read_json(shape("llada2-mini").folder / "config.json")
"""LLaDA2.1-mini's: layers, widths, experts and rotation by SGLang and mlx-lm; the rest as Ling-mini-2.0, its origin."""


def network(folder: Path, quantization: str = "none") -> CausalNetwork:
    found = ModelFolder.open(folder).weights(quantization, CPU, torch.float32).load()
    assert isinstance(found, CausalNetwork)
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_pass_is_that_of_the_plain_statement(name: str, tmp_path: Path) -> None:
    raw = SMALL | CASES[name]
    tensors = drawn(shapes(raw), len(name))
    check_passes(network(save(tmp_path, raw, tensors)), partial(logits, raw, tensors))


def rounded(tensors: Tensors, quantization: str) -> Tensors:
    """Rounds each matrix, but the router's and what is no matrix."""
    scheme = PRECISIONS[quantization].experts
    assert scheme is not None
    kinds = {name: scheme if ".experts." in name else INT8 for name, tensor in tensors.items() if tensor.dim() == 2}
    packed = {name: kind for name, kind in kinds.items() if not name.endswith("mlp.gate.weight")}
    return tensors | {name: unpack(pack(tensors[name], kind)) for name, kind in packed.items()}


def test_a_packed_network_and_its_store(tmp_path: Path) -> None:
    """Experts in four bits and everything else in eight; both compute with what the codes stand for."""
    quantization = "nf4"
    tensors = drawn(shapes(SMALL), 7)
    folder = save(tmp_path / "plain", SMALL, tensors)
    quantize(folder, tmp_path / "store", quantization, CPU)
    stored = ModelFolder.open(tmp_path / "store").weights("auto", CPU, torch.float32)
    assert stored.precision == PRECISIONS[quantization]
    for found in (network(folder, quantization), stored.load()):
        assert isinstance(found, CausalNetwork)
        check_passes(found, partial(logits, SMALL, rounded(tensors, quantization)))


def test_experts_that_are_published_in_int4(tmp_path: Path) -> None:
    """One by one, as compressed-tensors writes them, but those of the last layer, which are packed as they load."""
    tensors, codes = drawn(shapes(SMALL), 3), Tensors()
    meant = rounded(tensors, "int4")
    for name, tensor in tensors.items():
        if ".experts." not in name or ".layers.2." in name:
            codes[name] = tensor
            continue
        words, scales, meant[name] = quantise(tensor)
        codes |= {f"{name}_packed": words, f"{name}_scale": scales, f"{name}_shape": torch.tensor(tensor.shape)}
    folder = save(tmp_path, SMALL, codes)
    set_quantization(folder, {"group_0": {"weights": SCHEME, "targets": ["Linear"]}})
    check_passes(network(folder, "auto"), partial(logits, SMALL, meant))


def test_every_tensor_of_the_published_checkpoint_is_accounted_for(tmp_path: Path) -> None:
    """And its bytes: 4 bits and a bf16 scale for 32 weights of experts, 8 bits elsewhere; router and norms in bf16."""
    sizes = {name: math.prod(shape) for name, shape in shapes(MINI).items()}
    assert sum(sizes.values()) == pytest.approx(16.26e9, rel=0.001)
    write_json(tmp_path / "config.json", MINI)
    for part in range(4):  # a system may refuse to map 33 GB at once
        some = list(shapes(MINI).items())[part::4]
        sparse(tmp_path, dict(some), f"model-{part}.safetensors")
    opened = ModelFolder.open(tmp_path)
    loaded = opened.weights("int4", torch.device("meta"), None)
    assert len(loaded.layout) == len(sizes) == 20 * 6 + 3 + 3 + 19 * (2 + 3 + 3 * 256)
    expected = dict.fromkeys(("experts", "attention", "dense", "embedding"), 0.0)
    for name, count in sizes.items():
        if ".experts." in name:
            expected["experts"] += count * (4 / 8 + 2 / 32)
        elif "attention.query_key_value" in name or "attention.dense" in name:
            expected["attention"] += count
        elif "_proj" in name:
            expected["dense"] += count
        elif "word_embeddings" in name or "lm_head" in name:
            expected["embedding"] += count
    planned = opened.plan(quantization="int4", device="cpu")
    for part, count in (expected | {"kv_cache": 20 * 2 * 2 * 4 * 128 * (CONTEXT + 32)}).items():
        assert planned.parts[part] == pytest.approx(count, rel=0.02), part
    assert 8.6e9 < sum(expected.values()) == pytest.approx(9.57e9, rel=0.02)


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("model.layers.3.mlp.experts.256.up_proj.weight", [512, 2048], "is not part of this model"),
        ("model.layers.3.mlp.experts.255.up_proj.weight", [512, 1024], r"config\.json asks for \(512, 2048\)"),
    ],
)
def test_another_layout_is_refused(name: str, size: list[int], message: str, tmp_path: Path) -> None:
    few = MINI | {"num_hidden_layers": 4}
    write_json(tmp_path / "config.json", few)
    sparse(tmp_path, shapes(few) | {name: size})
    with pytest.raises(SafelightError, match=message):
        ModelFolder.open(tmp_path).weights("auto", torch.device("meta"), None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_group": 7}, "256 experts do not make 7 groups"),
        ({"n_group": 256}, "256 experts do not make 256 groups of two or more"),
        ({"topk_group": 9}, "8 experts cannot be chosen from 9 of 8 groups of 32"),
        ({"num_experts_per_tok": 129}, "129 experts cannot be chosen from 4 of 8 groups of 32"),
        ({"num_experts": None}, "num_experts is missing"),
        ({"score_function": "softmax"}, "score_function 'softmax' is not supported"),
        ({"first_k_dense_replace": -1}, "first_k_dense_replace must be a whole number"),
        ({"num_shared_experts": 1.5}, "num_shared_experts must be a whole number"),
        ({"routed_scaling_factor": 0}, "scale must be above 0"),
        ({"partial_rotary_factor": 2.0}, "numbers of a head that are rotated must be a whole number between 2 and 128"),
        ({"partial_rotary_factor": 0.26}, "33 numbers of a head are rotated; they must be even"),
        ({"partial_rotary_factor": "half"}, "partial_rotary_factor must be a finite number"),
        ({"moe_intermediate_size": "wide"}, "moe_intermediate_size must be a whole number"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", MINI | changes)
    with pytest.raises(SafelightError, match=message) as error:
        ModelFolder.open(tmp_path)
    assert "\n" not in str(error.value)


def test_the_rotated_share_may_be_given_with_the_rotation(tmp_path: Path) -> None:
    """Newer transformers writes it so."""
    rope = {"rope_type": "default", "rope_theta": 6e5, "partial_rotary_factor": 0.25}
    write_json(tmp_path / "config.json", {**MINI, "partial_rotary_factor": None, "rope_parameters": rope})
    config = ModelFolder.open(tmp_path).config
    assert (config.rotated, config.layers[0].rope_theta) == (32, 6e5)  # type: ignore[attr-defined]


def test_adapters_go_by_the_names_of_the_published_modules() -> None:
    """PEFT wraps those; the router and single experts have none."""
    with torch.device("meta"):
        made = build(read_config(SMALL))
    found = {TARGETS.peft_name(Place(path, "causal")): path for path in TARGETS.layers(made)}
    published = {name.removesuffix(".weight") for name in shapes(SMALL)}
    assert found.keys() <= published
    assert len(found) == 3 * (2 + 3)  # two of attention, three of the dense or the shared MLP
    assert found["model.layers.1.attention.query_key_value"] == "layers.1.self_attn.qkv_proj"
    for name in published:
        assert TARGETS.place_named(name) == (Place(found[name], "causal") if name in found else None)


def test_runs_have_the_settings_of_llada21_for_quality(tmp_path: Path) -> None:
    """They are those of diffusers' documents; with blocks of 32, and the mask of its vocabulary."""
    tensors = drawn(shapes(SMALL), 5)
    settings = run_settings(save(tmp_path, SMALL, tensors))
    assert settings.decoders == ("block_causal",)
    found = settings.defaults
    assert (found.accept_probability, found.edit_probability) == (0.7, 0.5)
    config = read_config(MINI)
    assert (config.canvas_length, config.mask_token_id) == (32, 156_895)
    assert [layer.is_dense for layer in config.layers] == [True] + [False] * 19

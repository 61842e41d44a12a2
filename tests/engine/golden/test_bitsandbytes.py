"""Checkpoints that transformers quantised with bitsandbytes and saved: its logits, and the library's own values."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BitsAndBytesConfig, PreTrainedModel

from engine import load_model
from engine.models.folder import ModelFolder, quantize
from engine.quant import FP4_F32, INT8, NF4_F32, Precision, Scheme, unpack
from engine.weights.loader import Weights
from tests.engine.golden import reference
from tests.engine.golden.causal_reference import YARN, build, check_passes, logits_of, save
from tests.engine.weights.test_bitsandbytes import dequantized

KINDS: dict[str, tuple[dict[str, Any], Scheme]] = {
    "nf4": ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, NF4_F32),
    "nf4, nested": (
        {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
        NF4_F32,
    ),
    "fp4": ({"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}, FP4_F32),
    "fp4, nested": (
        {"load_in_4bit": True, "bnb_4bit_quant_type": "fp4", "bnb_4bit_use_double_quant": True},
        FP4_F32,
    ),
    "8 bits": ({"load_in_8bit": True}, INT8),
}
QUERIES = {**YARN, "llama_4_scaling_beta": 0.3}
WIDE = {"hidden_size": 128, "intermediate_size": 192, "head_dim": 32}
FAMILIES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {  # others: ``test_causal``
    "qwen2, tied": ("qwen2", "qwen2", {"hidden_size": 128, "intermediate_size": 192, "tie_word_embeddings": True}, {}),
    "qwen3": ("qwen3", "qwen3", WIDE, {}),
    "nemotron": ("nemotron_labs_diffusion", "ministral3", {**WIDE, "rope_parameters": QUERIES}, {"mask_token_id": 5}),
    "gemma3_text": ("gemma3_text", "gemma3_text", WIDE, {}),
    "llada-moe": (
        "lladamoe",
        "qwen3_moe",
        {**WIDE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "norm_topk_prob": False},
        {"mask_token_id": 5, "num_experts": 4, "expert_intermediate_size": 64, "qk_layernorm": True},
    ),
}
CPU = torch.device("cpu")


def quantised(plain: PreTrainedModel, folder: Path, kind: str, **settings: Any) -> PreTrainedModel:
    """The model that transformers reads out of a folder as one of ``KINDS``.

    Where it trains, the library does not round activations: to 8 bits, or, on some processors, to bf16.
    """
    plain.save_pretrained(folder)
    config = BitsAndBytesConfig(**KINDS[kind][0], **settings)
    found: PreTrainedModel = type(plain).from_pretrained(
        folder, quantization_config=config, device_map="cpu", dtype=torch.float32
    )
    return found.train()


def opened(folder: Path) -> Weights[Any]:
    return ModelFolder.open(folder).weights("auto", CPU, torch.float32)


def values(module: nn.Module) -> Tensor:
    """A quantised layer's weight by the library."""
    from bitsandbytes import functional  # seconds, in each process that collects the tests

    weight: Any = module.weight
    if weight.dtype == torch.int8:
        rows: Tensor = weight.SCB if getattr(weight, "SCB", None) is not None else module.state.SCB
        return functional.int8_vectorwise_dequant(weight.data, rows)
    return functional.dequantize_4bit(weight.data, weight.quant_state)


def check_values(weights: Weights[Any], theirs: nn.Module, scheme: Scheme) -> int:
    """See that each packed weight is what the library dequantises it to; returns how many there are."""
    network, layers = weights.load(), dict(theirs.named_modules())
    for path, module in weights.state.packed.items():
        assert module.scheme == scheme
        found, wanted = unpack(network.get_submodule(path).packed), values(layers[path.removesuffix(".weight")])
        # The library multiplies a code of 8 bits by the row's largest number, and then by 1 / 127.
        torch.testing.assert_close(found, wanted, rtol=2**-22 if scheme == INT8 else 0, atol=0)
    return len(weights.state.packed)


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        *(("qwen3", kind) for kind in KINDS),
        *((family, "nf4, nested") for family in FAMILIES if family != "qwen3"),
        ("gemma3_text", "8 bits"),
    ],
)
def test_every_pass_is_that_of_transformers(family: str, kind: str, tmp_path: Path) -> None:
    name, builds, changes, raw = FAMILIES[family]
    theirs = quantised(build(builds, len(family), **changes), tmp_path / "plain", kind)
    weights = opened(save(theirs, tmp_path / "packed", name, **raw))
    scheme = KINDS[kind][1]
    dense = None if family == "llada-moe" else scheme  # transformers leaves experts as they are
    assert weights.precision == Precision(attention=scheme, dense=dense)
    assert check_values(weights, theirs.model, scheme) == (12 if family == "llada-moe" else 21)
    check_passes(weights.network, partial(logits_of, theirs))


@pytest.mark.parametrize("kind", ["nf4, nested", "fp4"])
def test_rows_of_no_whole_groups_are_read_as_values(kind: str, tmp_path: Path) -> None:
    """Blocks go on from row to row there. The library's code for processors with AVX-512 reads such rows wrongly."""
    from bitsandbytes.nn import Linear4bit  # seconds, in each process that collects the tests

    plain = build("qwen3")
    theirs = quantised(plain, tmp_path / "plain", kind)
    weights = opened(save(theirs, tmp_path / "packed", "qwen3"))
    assert weights.precision == Precision()
    for path, module in theirs.named_modules():
        if isinstance(module, Linear4bit):
            made = dequantized(module.weight.data, module.weight.quant_state)
            plain.get_submodule(path).weight.data.copy_(made)
    check_passes(weights.load(), partial(logits_of, plain))


def test_layers_that_it_skipped_stay_as_they_are(tmp_path: Path) -> None:
    kind = "8 bits"
    skipped = ["model.layers.1.mlp", "model.layers.0.self_attn.q_proj", "lm_head"]
    theirs = quantised(
        build("qwen3", **WIDE, tie_word_embeddings=False), tmp_path / "plain", kind, llm_int8_skip_modules=skipped
    )
    weights = opened(save(theirs, tmp_path / "packed", "qwen3"))
    assert check_values(weights, theirs.model, KINDS[kind][1]) == 21 - 4
    check_passes(weights.network, partial(logits_of, theirs))
    # Our own store of it, too.
    quantize(tmp_path / "packed", tmp_path / "store", "auto", CPU)
    stored = opened(tmp_path / "store")
    assert stored.precision == weights.precision
    assert check_values(stored, theirs.model, KINDS[kind][1]) == 21 - 4
    check_passes(stored.network, partial(logits_of, theirs))


@pytest.mark.parametrize(("kind", "skipped"), [("nf4, nested", ["lm_head"]), ("8 bits", None)])
def test_diffusion_gemma(kind: str, skipped: list[str] | None, tmp_path: Path) -> None:
    """Left to itself transformers packs nothing that encoder and decoder share, and never experts; a router is read."""
    shape = reference.Shape({"hidden_size": 128, "intermediate_size": 64, "head_dim": 32, "global_head_dim": 64})
    theirs = quantised(reference.build(shape, 0), tmp_path / "plain", kind, llm_int8_skip_modules=skipped)
    folder = reference.save(theirs, tmp_path / "packed")
    ours = load_model(folder, device="cpu", dtype="float32")
    assert ours.precision.attention == (None if skipped is None else KINDS[kind][1])
    assert (ours.precision.dense, ours.precision.experts) == (KINDS[kind][1], None)
    wanted, cache = reference.Reference(theirs), ours.new_cache()
    draws = torch.Generator().manual_seed(0)
    prompt, canvas = (torch.randint(100, (count,), generator=draws) for count in (30, 12))
    close = partial(torch.testing.assert_close, rtol=0, atol=2e-4)
    close(ours.prefill(prompt, cache), wanted.prefill(prompt))
    first = wanted.denoise(canvas)
    close(ours.denoise(canvas, cache), first)
    close(ours.denoise(canvas, cache, first), wanted.denoise(canvas, first))

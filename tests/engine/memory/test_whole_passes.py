"""Memory of bidirectional decoding, measured, against plans of models that read all of a text at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine import GenerationConfig, StepFinished
from engine.config import ModelConfig
from engine.decoding import token_sampler
from engine.decoding.generate import generate
from engine.memory import footprint
from engine.models.network import Network
from engine.models.registry import family_of
from engine.quant import PRECISIONS, Precision
from tests.engine.memory.test_plan import peak_of, zeroed

SHAPE: dict[str, Any] = {
    "hidden_size": 256, "num_attention_heads": 8, "num_hidden_layers": 2, "intermediate_size": 768, "eos_token_id": 1,
    "bos_token_id": 1, "pad_token_id": 1, "max_position_embeddings": 8192, "block_size": 64, "mask_token_id": 5,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "Dream": {"num_key_value_heads": 2, "tie_word_embeddings": False},
    "a2d-qwen3": {"num_key_value_heads": 4, "tie_word_embeddings": True},
    "lladamoe": {
        "expert_intermediate_size": 128, "num_experts": 16, "num_experts_per_tok": 2, "qk_layernorm": True,
    },
}  # fmt: skip
CUTS: dict[str, Any] = {
    "sampling_temperature": 0.7, "sampling_top_p": 0.9, "sampling_top_k": 50, "sampling_min_p": 0.01,
    "banned_tokens": (3,), "repetition_penalty": 1.2,
}  # fmt: skip


def made(name: str, precision: Precision, dtype: torch.dtype, vocabulary: int) -> tuple[Network, ModelConfig]:
    """A network of equal numbers, so that all tokens choose the same experts."""
    family = family_of({"model_type": name})
    config = family.read_config({**SHAPE, **FAMILIES[name], "model_type": name, "vocab_size": vocabulary})
    return zeroed(family.build, config, precision, dtype), config


def settings(config: ModelConfig, **changes: Any) -> GenerationConfig:
    whole = {"max_new_tokens": config.canvas_length, "max_denoising_steps": 2, "eos_token_ids": ()}
    return GenerationConfig(decoder="bidirectional", **whole, **changes)


def measured_and_counted(
    name: str, context: int, vocabulary: int, dtype: torch.dtype, precision: Precision, **changes: Any
) -> tuple[int, int]:
    network, config = made(name, precision, dtype, vocabulary)
    cache = network.new_cache()
    cache.reserve(context + config.canvas_length)
    peak = peak_of(lambda: generate(network, torch.zeros(context).long(), settings(config, **changes), cache=cache))
    mode = footprint.Mode(dtype, precision, on_cpu=True, has_kernels=False)
    parts = footprint.parts(family_of({"model_type": name}).build, config, mode, context)
    assert cache.nbytes <= parts["kv_cache"]
    return peak, parts["activations"] + parts["workspace"]


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profiler sees no other."""
    monkeypatch.setattr(footprint, "available_threads", lambda: 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


@pytest.mark.parametrize(
    ("name", "dtype", "precision"),
    [
        *((name, torch.bfloat16, "none") for name in FAMILIES),
        *(pytest.param(name, torch.float32, "none", marks=pytest.mark.slow) for name in FAMILIES),
        *(pytest.param(name, torch.bfloat16, "int4", marks=pytest.mark.slow) for name in FAMILIES),
    ],
)
def test_a_pass_over_a_long_text(name: str, dtype: torch.dtype, precision: str) -> None:
    """No tensor of it is quadratic; never less is counted, and at most 1.5 times as much."""
    own = PRECISIONS[precision] if name == "lladamoe" else PRECISIONS[precision].for_dense()
    peak, counted = measured_and_counted(name, 900, 256, dtype, own)
    assert 0.99 * peak <= counted <= 1.5 * peak
    if name == "Dream":
        twice, _ = measured_and_counted(name, 1800, 256, dtype, own)
        assert twice < 2.05 * peak


@pytest.mark.parametrize("has_pieces", [False, True])
@pytest.mark.parametrize("name", ["Dream", pytest.param("a2d-qwen3", marks=pytest.mark.slow)])
def test_the_logits_of_all_masks(name: str, has_pieces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block's are there at once; a few rows at a time are made into tokens."""
    if has_pieces:
        for module in (token_sampler, footprint):
            monkeypatch.setattr(module, "LOGITS_AT_ONCE", 8 * 16_384)
    peak, counted = measured_and_counted(name, 20, 16_384, torch.bfloat16, Precision(), **CUTS)
    assert 0.99 * peak <= counted <= 1.5 * peak
    assert not has_pieces or peak < 4 * 4 * 64 * 16_384


def test_a_row_is_penalised_for_what_was_read_up_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    own = token_sampler.TokenSampler(GenerationConfig(repetition_penalty=2.0), 6, torch.device("cpu"), 0)
    own.see([5])
    wanted = torch.tensor([[1, 2, 2, 2, 2, 1], [1, 2, 1, 2, 2, 1], [1, 1, 1, 2, 2, 1]]) / 2
    for rows in (3, 2, 1):
        monkeypatch.setattr(token_sampler, "LOGITS_AT_ONCE", rows * 6)
        assert torch.equal(own.allowed(torch.ones(3, 6), (0, 2, 1)), wanted)


def test_rows_taken_by_pieces_are_those_of_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network, config = made("a2d-qwen3", Precision(), torch.float32, 512)
    generator = torch.Generator().manual_seed(1)
    for parameter in network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.1
    asked, found = settings(config, top_k=3, repetition_penalty=1.5), list[list[Any]]()
    for rows in (64, 1, 7):
        monkeypatch.setattr(token_sampler, "LOGITS_AT_ONCE", rows * 512)
        events = generate(network, torch.arange(9), asked)
        found.append([list(event.argmax_canvas) for event in events if isinstance(event, StepFinished)])
    assert found[0] == found[1] == found[2]

"""Prefill, denoise and commit against transformers, from the same checkpoint files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine import Model, load_model
from tests.engine.golden.reference import VOCABULARY, Reference, Shape, build, save

TOLERANCE = 2e-4  # largest absolute error in fp32; about 1e-5 in practice

FULL_ATTENTION_SIZES = {"head_dim": 12, "num_key_value_heads": 3}
SHAPES = {
    "prompt beyond the window": Shape(prompt_length=61),
    "window shorter than the canvas": Shape({"sliding_window": 6}, canvas_length=16, prompt_length=11),
    "head counts and sizes": Shape(
        {
            "num_attention_heads": 6,
            "num_key_value_heads": 3,
            "global_head_dim": 24,
            "num_global_key_value_heads": 2,
        }
    ),
    "per_layer_config": Shape(
        {
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
            "num_attention_heads": 6,
            "per_layer_config": {1: FULL_ATTENTION_SIZES, 3: FULL_ATTENTION_SIZES},
        },
        prompt_length=30,
    ),
    "sixteen experts": Shape({"num_experts": 16, "top_k_experts": 3}, prompt_length=30),
    "rope, soft-cap and eps": Shape(
        {
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                "full_attention": {
                    "rope_type": "proportional",
                    "partial_rotary_factor": 0.5,
                    "rope_theta": 300.0,
                },
            },
            "final_logit_softcapping": 2.0,
            "rms_norm_eps": 1e-2,
        },
        prompt_length=30,
    ),
    "a single block of layers six deep": Shape({"num_hidden_layers": 6, "layer_types": None}, prompt_length=25),
}


def tokens(count: int, seed: int) -> Tensor:
    return torch.randint(VOCABULARY, (count,), generator=torch.Generator().manual_seed(seed))


def errors(reference: Reference, model: Model, shape: Shape) -> dict[str, float]:
    """Largest absolute error of each pass over a prompt and three blocks."""
    cache = model.new_cache()
    found = {}

    def compare(name: str, theirs: Tensor, ours: Tensor) -> Tensor:
        assert theirs.shape == ours.shape
        found[name] = (theirs.float() - ours.float()).abs().max().item()
        return theirs

    prompt = tokens(shape.prompt_length, 1)
    hidden = compare("prefill", reference.prefill(prompt), model.prefill(prompt, cache))
    assert hidden.float().std() > 0.3  # an all-zero model would agree with anything
    for block in range(3):
        first, second = tokens(shape.canvas_length, 10 + block), tokens(shape.canvas_length, 20 + block)
        logits = compare(f"denoise {block}", reference.denoise(first), model.denoise(first, cache))
        scaled = logits / 0.7
        compare(f"condition {block}", reference.denoise(second, scaled), model.denoise(second, cache, scaled))
        compare(f"commit {block}", reference.prefill(first), model.prefill(first, cache))
    assert cache.length == shape.prompt_length + 3 * shape.canvas_length
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_both_modes_agree_in_fp32(name: str, tmp_path: Path) -> None:
    theirs = build(SHAPES[name], seed=len(name))
    model = load_model(save(theirs, tmp_path), device="cpu", dtype="float32")
    found = errors(Reference(theirs), model, SHAPES[name])
    assert max(found.values()) <= TOLERANCE, found
    assert model.config.vision is not None
    assert model.config.canvas_length == SHAPES[name].canvas_length


def test_both_modes_agree_in_bf16(tmp_path: Path) -> None:
    """Mean error within 5 % of the spread (8-bit rounding in every layer), and as near to fp32 as transformers is.

    Every expert is chosen: a rounded tie in the router would send a token elsewhere, which is no error of arithmetic.
    """
    shape = Shape({"top_k_experts": 4}, prompt_length=61)
    reference = Reference(build(shape, seed=0).to(torch.bfloat16))
    save(reference.model, tmp_path)
    model, exact = (load_model(tmp_path, device="cpu", dtype=dtype) for dtype in ("bfloat16", "float32"))
    cache, exact_cache = model.new_cache(), exact.new_cache()
    prompt, canvas = tokens(shape.prompt_length, 1), tokens(shape.canvas_length, 2)

    def compare(theirs: Tensor, ours: Tensor, truth: Tensor) -> Tensor:
        def distance(one: Tensor, other: Tensor) -> float:
            return float((one.float() - other.float()).abs().mean() / truth.std())

        assert ours.dtype == theirs.dtype
        assert 0 < distance(theirs, ours) <= 0.05
        assert distance(ours, truth) <= 1.3 * distance(theirs, truth)
        return truth

    compare(reference.prefill(prompt), model.prefill(prompt, cache), exact.prefill(prompt, exact_cache))
    logits = compare(reference.denoise(canvas), model.denoise(canvas, cache), exact.denoise(canvas, exact_cache))
    again = canvas.flip(0)
    compare(
        reference.denoise(again, logits), model.denoise(again, cache, logits), exact.denoise(again, exact_cache, logits)
    )

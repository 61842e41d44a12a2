"""Memory of images, against plans: the cache of the largest, the pass that reads it, and the tower's."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from engine import GenerationConfig, generate
from engine.config import IMAGE_TOKENS, VisionConfig
from engine.kernels import cpu_int8, cpu_w4a8, native
from engine.layers.images import ImageRows
from engine.layers.kv_cache import KVCache, cache_bytes
from engine.memory import footprint
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.prompt import Prompt
from engine.models.vision.tower import VisionTower
from engine.quant import PRECISIONS
from tests.engine.memory.test_plan import MIDDLE, measured_peak, peak_of
from tests.engine.tiny import VISION, network

LARGEST = IMAGE_TOKENS[-1]
TEXT = 700


def prompt(vision: VisionConfig, hidden: int) -> Prompt:
    """Text, the largest image, and a token behind it."""
    image = [vision.begin_token_id, *[vision.image_token_id] * LARGEST, vision.end_token_id]
    rows = torch.zeros(LARGEST, hidden)
    return Prompt((*[3] * TEXT, *image), (ImageRows(TEXT + 1, rows, "an image"),))


@pytest.mark.parametrize("piece", [512, 1024])
def test_the_largest_image_finds_the_room_that_is_planned(piece: int) -> None:
    model = network(vision=VISION)
    asked, config = prompt(VISION, model.config.hidden_size), GenerationConfig(max_new_tokens=1, max_denoising_steps=1)
    cache = KVCache(model.config, model.device, model.dtype, piece)
    for _ in generate(model, asked, config, cache=cache):
        pass
    assert cache.nbytes == cache_bytes(model.config, len(asked) + model.config.canvas_length, 4, piece)
    blind = dataclasses.replace(model.config, vision=None)
    assert cache.nbytes > cache_bytes(blind, len(asked) + model.config.canvas_length, 4, piece)


@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16])
def test_a_plan_covers_the_pass_of_the_largest_image(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """No less is planned than is measured, and at most 1.4 times as much. On one thread, without C."""
    monkeypatch.setattr(native, "instructions", lambda: "")
    monkeypatch.setattr(cpu_w4a8, "block", lambda: 0)
    monkeypatch.setattr(cpu_int8, "multiplies_many", lambda: False)
    monkeypatch.setattr(footprint, "available_threads", lambda: 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    config = dataclasses.replace(MIDDLE, vision=VISION)
    mode = footprint.Mode(dtype, PRECISIONS["int4"], on_cpu=True, has_kernels=False)
    asked = prompt(VISION, config.hidden_size)
    parts = footprint.parts(DiffusionGemma, config, mode, len(asked))
    peak = measured_peak(config, PRECISIONS["int4"], dtype, asked)
    assert 0.99 * peak <= parts["activations"] + parts["workspace"] <= 1.4 * peak


@torch.inference_mode()
def test_a_plan_covers_the_tower_s_pass() -> None:
    vision = dataclasses.replace(
        VISION, hidden_size=144, intermediate_size=528, num_hidden_layers=2, num_attention_heads=2, head_dim=72,
        num_key_value_heads=2, patch_size=8, pooling_kernel_size=3, position_embedding_size=600,
    )  # fmt: skip
    side = 3 * 16
    tower = VisionTower(vision, 256).to(torch.bfloat16)
    values = torch.zeros(1, side * side, 3 * vision.patch_size**2)
    peak = peak_of(lambda: [tower(values, side, side)]) + values.nbytes
    assert 0.99 * peak <= footprint.image_pass(vision, 2, side * side // 9) <= 1.4 * peak

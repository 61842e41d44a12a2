"""Prefill by kernels against the plain path: hidden states, keys and values, and what a canvas makes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from engine import kernels
from engine.adapters.lora import attach
from engine.config import GenerationConfig
from engine.decoding.step_program import StepProgram
from engine.kernels import attention
from engine.layers.images import ImageRows
from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.adapting import random_adapters
from tests.engine.packing import packed
from tests.engine.tiny import CANVAS, tokens

PIECE, WINDOW, SLACK = 13, 10, 3  # a piece is longer than what a sliding layer keeps besides its window
TOLERANCE = {"atol": 5e-5, "rtol": 1e-4}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> DiffusionGemma:
    monkeypatch.setattr("engine.layers.kv_cache.SLACK", SLACK)
    monkeypatch.setattr("engine.models.diffusion_gemma.network.KERNEL_PIECE", PIECE)
    made = packed()
    made.config = dataclasses.replace(made.config, sliding_window=WINDOW)
    return made


@contextmanager
def by_kernels() -> Iterator[list[int]]:
    """Kernels run inside, interpreted. Yields the queries of each call of the attention kernel."""
    calls: list[int] = []
    launch = attention.attention

    def counted(queries: Tensor, *others: Any) -> Tensor:
        calls.append(queries.shape[1])
        return launch(queries, *others)

    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("the plain path")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "run_on", lambda *_: True)
        patch.setattr(attention, "attention", counted)
        patch.setattr(F, "scaled_dot_product_attention", forbidden)
        patch.setattr("engine.models.diffusion_gemma.network.causal_mask", forbidden)
        patch.setattr(DiffusionGemma, "run", forbidden)
        yield calls


def assert_same_text(one: KVCache, other: KVCache) -> None:
    """Keys and values of all tokens that both hold, and of the whole window before what comes next."""
    assert one.length == other.length
    for layer, plain in zip(one._layers, other._layers, strict=True):
        first = max(layer.base, plain.base)
        assert first <= max(0, one.length - WINDOW + 1)
        for here, there in ((layer.keys, plain.keys), (layer.values, plain.values)):
            found = here[:, :, first - layer.base : layer.stored]
            torch.testing.assert_close(found, there[:, :, first - plain.base : plain.stored], **TOLERANCE)


@torch.inference_mode()
def test_a_turn_cut_back_and_a_canvas_behind_it(made: DiffusionGemma) -> None:
    """Text is cut back within the slack and read on, then a program's step commits; with an adapter a mode."""
    attach(made, random_adapters(made))

    def turn(cache: KVCache) -> None:
        cache.reserve(40 + 2 * CANVAS)
        made.prefill(tokens(25), cache)
        cache.truncate(22)
        made.prefill(tokens(7, seed=4), cache)

    def step(cache: KVCache) -> Tensor:
        program = StepProgram(made, cache, CANVAS)
        program.begin(tokens(CANVAS, seed=1), None, GenerationConfig(), tokens(CANVAS, seed=2))
        return program.layers(CANVAS)

    plain = made.new_cache()
    turn(plain)
    want = step(plain)
    with by_kernels() as calls:
        cache = made.new_cache()
        turn(cache)
        found = step(cache)
    assert calls[: 2 * len(made.layers)] == [PIECE] * len(made.layers) + [25 - PIECE] * len(made.layers)
    assert calls[-1] == 2 * CANVAS
    assert_same_text(cache, plain)
    torch.testing.assert_close(found, want, **TOLERANCE)
    logits = made.denoise(tokens(CANVAS, seed=1), cache)
    torch.testing.assert_close(logits, made.denoise(tokens(CANVAS, seed=1), plain), **TOLERANCE)


def test_an_image_among_text(made: DiffusionGemma, monkeypatch: pytest.MonkeyPatch) -> None:
    """One longer than window and piece, behind text and before it: its rows see one another in every layer."""
    rows = torch.randn(17, made.config.hidden_size, generator=torch.Generator().manual_seed(3))
    images, text = (ImageRows(15, rows, "an image"),), tokens(15 + 17 + 16)
    plain = made.new_cache()
    plain.images = images
    want = made.prefill(text, plain)
    monkeypatch.setattr(kernels, "run_on", lambda *_: True)
    monkeypatch.setattr(DiffusionGemma, "run", None)
    cache = made.new_cache()
    cache.images = images
    assert cache.pieces(len(text)) == [PIECE, 2, 17, PIECE, 3]
    torch.testing.assert_close(made.prefill(text, cache), want, **TOLERANCE)
    assert_same_text(cache, plain)

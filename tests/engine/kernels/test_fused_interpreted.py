"""All layers with the fused kernels between them, against the plain network, on a canvas and on text before it."""

from __future__ import annotations

import pytest
import torch

from engine.adapters import attach
from engine.config import GenerationConfig
from engine.layers.attention import Span
from engine.layers.fused import FusedLayers
from engine.models.diffusion_gemma import DiffusionGemma
from engine.step_graph import StepProgram
from tests.engine.adapting import random_adapters
from tests.engine.packing import packable
from tests.engine.tiny import CANVAS, WINDOW, tokens


@pytest.mark.parametrize(("length", "text"), [(0, 0), (5, 0), (30, 0), (0, CANVAS), (5, 3), (30, CANVAS)])
def test_fused_layers(length: int, text: int) -> None:
    """A prefix shorter and longer than the window; both sorts of layer; text of its own pass in the plain network."""
    made: DiffusionGemma = packable()
    count = text + CANVAS
    plain, cache = made.new_cache(), made.new_cache()
    for each in (plain, cache):
        each.reserve(length + count)
        if length:
            made.prefill(tokens(length), each)
    positions = torch.arange(length, length + count)
    canvas = made.self_conditioning(made.embed(tokens(CANVAS, seed=1))[None])[0]
    x = torch.cat([made.embed(tokens(text, seed=2)), canvas])
    if text:
        made.prefill(tokens(text, seed=2), plain)
    extends = [plain.onlooker(index) for index in range(len(made.layers))]
    want = made.run(canvas[None], positions[text:], {}, extends)[0]
    spans = {
        kind: Span(torch.tensor(bounds, dtype=torch.int32), text, WINDOW if kind == "sliding_attention" else None)
        for kind, bounds in cache.spans(CANVAS, text).items()
    }
    with torch.inference_mode():
        for index in range(len(made.layers)):
            for buffer in cache.buffers(index):
                buffer[:, :, length:] = float("nan")
        found = FusedLayers(made)(x, made.ropes(positions, x.dtype), spans, cache)
    torch.testing.assert_close(found[text:], want, atol=2e-5, rtol=1e-5)
    for index in range(len(made.layers)):
        for old, new in zip(plain.buffers(index), cache.buffers(index), strict=True):
            written = slice(length, length + count)
            torch.testing.assert_close(new[:, :, written], old[:, :, written], atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("adapted", [False, True])
@torch.inference_mode()
def test_a_step_that_commits(adapted: bool) -> None:
    """As a program takes it by the fused layers, against one that takes it plainly; also with an adapter a mode."""
    made = packable()
    if adapted:
        attach(made, random_adapters(made))
    told = []
    for fused in (None, FusedLayers(made)):
        cache = made.new_cache()
        cache.reserve(30 + 2 * CANVAS)
        made.prefill(tokens(30), cache)
        program = StepProgram(made, cache, CANVAS)
        program.fused = fused
        program.seed(3)
        program.begin(tokens(CANVAS, seed=1), None, GenerationConfig(), tokens(CANVAS, seed=2))
        for step in range(2):
            program.launch(step)
            told.append(program.collect(step))
    for plain, found in zip(told[:2], told[2:], strict=True):
        assert torch.equal(found.argmax, plain.argmax)
        assert torch.equal(found.candidates, plain.candidates)
        assert torch.equal(found.next_canvas, plain.next_canvas)
        torch.testing.assert_close(found.entropy, plain.entropy, atol=1e-4, rtol=0)

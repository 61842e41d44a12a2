"""All layers with the fused kernels between them, against the plain network, on a whole canvas."""

from __future__ import annotations

import pytest
import torch

from engine.layers.fused import FusedLayers
from engine.models.diffusion_gemma import DiffusionGemma
from tests.engine.packing import packable
from tests.engine.tiny import CANVAS, tokens


@pytest.mark.parametrize("length", [0, 5, 30])
def test_fused_layers(length: int) -> None:
    """A text shorter and longer than the window; both sorts of layer."""
    made: DiffusionGemma = packable()
    cache = made.new_cache()
    cache.reserve(length + CANVAS)
    if length:
        made.prefill(tokens(length), cache)
    canvas = made.self_conditioning(made.embed(tokens(CANVAS, seed=1))[None])
    positions = torch.arange(length, length + CANVAS)
    spans = {kind: torch.tensor(span, dtype=torch.int32) for kind, span in cache.spans(CANVAS).items()}
    extends = [cache.onlooker(index) for index in range(len(made.layers))]
    want = made.run(canvas, positions, {}, extends, causal=False)[0]
    before = [[buffer.clone() for buffer in cache.buffers(index)] for index in range(len(made.layers))]
    for index in range(len(made.layers)):  # what the canvas wrote is to be written again
        end = int(spans[made.config.layers[index].kind][1])
        for buffer in cache.buffers(index):
            buffer[:, :, end - CANVAS : end] = float("nan")
    with torch.inference_mode():
        found = FusedLayers(made, cache)(canvas[0], made.ropes(positions, canvas.dtype), spans)
    torch.testing.assert_close(found, want, atol=2e-5, rtol=1e-5)
    for index, buffers in enumerate(before):
        end = int(spans[made.config.layers[index].kind][1])
        for old, new in zip(buffers, cache.buffers(index), strict=True):
            torch.testing.assert_close(new[:, :, :end], old[:, :, :end], atol=2e-5, rtol=1e-5)

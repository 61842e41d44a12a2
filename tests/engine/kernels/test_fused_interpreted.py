"""All layers with the fused kernels between them, against the plain network, on a canvas and on text before it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine import kernels
from engine.adapters import attach
from engine.config import GenerationConfig
from engine.kernels.launches import counting
from engine.layers.attention import Span
from engine.layers.fused import FusedLayers
from engine.layers.packed import PackedLinear, packed_weights
from engine.models.diffusion_gemma import DiffusionGemma
from engine.step_graph import StepProgram, Told
from engine.weights.quantize import INT4, INT8, PRECISIONS, Precision
from tests.engine.adapting import random_adapters
from tests.engine.packing import packable, packed
from tests.engine.tiny import CANVAS, WINDOW, tokens


@pytest.mark.parametrize(
    ("length", "text", "quantization"),
    [
        (0, 0, "none"),
        (5, 0, "int4"),
        (30, 0, "none"),
        (0, CANVAS, "none"),
        (5, 3, "none"),
        (30, CANVAS, "none"),
        (30, CANVAS, "int4"),
    ],
)
def test_fused_layers(length: int, text: int, quantization: str) -> None:
    """A prefix shorter and longer than the window; both sorts of layer; text of its own pass in the plain network."""
    made: DiffusionGemma = packable() if quantization == "none" else packed(PRECISIONS[quantization])
    count = text + CANVAS
    plain, cache = made.new_cache(), made.new_cache()
    for each in (plain, cache):
        each.reserve(length + count)
        if length:
            made.prefill(tokens(length), each)
    positions = torch.arange(length, length + count)
    canvas = made.self_conditioning(made.embed(tokens(CANVAS, seed=1))[None])[0]
    x = canvas
    if text:
        x = torch.cat([made.embed(tokens(text, seed=2)), canvas])
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


def steps(made: DiffusionGemma, fused: FusedLayers | None) -> list[Told]:
    """Two steps of a canvas, the first of which commits the one before."""
    cache = made.new_cache()
    cache.reserve(30 + 2 * CANVAS)
    made.prefill(tokens(30), cache)
    program = StepProgram(made, cache, CANVAS)
    program.fused = fused
    program.seed(3)
    program.begin(tokens(CANVAS, seed=1), None, GenerationConfig(), tokens(CANVAS, seed=2))
    told = []
    for step in range(2):
        program.launch(step)
        found = program.collect(step)
        told.append(Told(*(part.clone() if isinstance(part, Tensor) else part for part in found)))
    return told


@pytest.mark.parametrize("adapted", [False, True])
@pytest.mark.parametrize("quantization", ["none", "int4"])
@torch.inference_mode()
def test_a_step_that_commits(quantization: str, adapted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a program takes it by kernels alone, against one that takes it plainly; also with an adapter a mode."""
    made = packable() if quantization == "none" else packed(PRECISIONS[quantization])
    if adapted:
        attach(made, random_adapters(made))
    plainly = steps(made, None)
    monkeypatch.setattr(kernels, "_fast", lambda _: True)
    if quantization == "none":
        monkeypatch.undo()  # there are no kernels for linear layers that are not packed
    for plain, found in zip(plainly, steps(made, FusedLayers(made)), strict=True):
        assert torch.equal(found.argmax, plain.argmax)
        assert torch.equal(found.candidates, plain.candidates)
        assert torch.equal(found.accepted, plain.accepted)
        assert torch.equal(found.next_canvas, plain.next_canvas)
        assert found.converged == plain.converged
        torch.testing.assert_close(found.entropy, plain.entropy, atol=1e-4, rtol=0)


def test_joined_weights_stay_what_they_were_and_are_held_once() -> None:
    made = packed()
    before = {name: buffer.clone() for name, buffer in made.named_buffers()}
    with torch.inference_mode():
        fused = FusedLayers(made)
    sliding, full = fused.layers
    assert sliding.projections is not None
    assert full.projections is not None
    assert sliding.projections.shape == ((4 + 2 + 2) * 16, 128)
    assert full.projections.shape == ((4 + 1) * 32, 128)
    after = dict(made.named_buffers())
    assert before.keys() == after.keys()
    for name, buffer in after.items():
        assert torch.equal(buffer, before[name])
        assert not buffer.is_inference()  # training goes on with them
    storages = {buffer.untyped_storage().data_ptr(): buffer.untyped_storage().nbytes() for buffer in after.values()}
    assert sum(storages.values()) == sum(buffer.nbytes for buffer in after.values())
    assert len(storages) == 2 * (1 + 1 + 2 + 2 * 2)  # table, self-conditioning, layers, their experts' two
    again = FusedLayers(made)
    assert again.layers[0].projections is not None
    assert again.layers[0].projections.codes.data_ptr() == sliding.projections.codes.data_ptr()
    reloaded = packed(seed=1)
    made.load_state_dict(reloaded.state_dict())
    assert all(torch.equal(buffer, dict(reloaded.named_buffers())[name]) for name, buffer in made.named_buffers())


@torch.inference_mode()
def test_weights_of_four_bits_are_not_joined() -> None:
    """As in the published int4 checkpoint, whose attention has four bits: it goes by itself, the dense MLP does not."""
    made = packed(Precision(INT4, INT4, INT8, INT8))
    fused = FusedLayers(made)
    assert fused.layers[0].projections is None
    assert fused.layers[0].gate_up is not None
    for plain, found in zip(steps(made, None), steps(made, fused), strict=True):
        assert torch.equal(found.argmax, plain.argmax)
        torch.testing.assert_close(found.entropy, plain.entropy, atol=1e-4, rtol=0)


@torch.inference_mode()
def test_launches_in_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs is what is counted; an adapter costs launches where it is, and nowhere else."""
    made = packed()
    monkeypatch.setattr(kernels, "_fast", lambda _: True)
    cache = made.new_cache()
    cache.reserve(2 * CANVAS)
    program = StepProgram(made, cache, CANVAS)
    program.fused = FusedLayers(made)
    program.begin(tokens(CANVAS), None, GenerationConfig())
    with counting() as found:
        program.run_step()
    assert found["linear8_kernel"] == 2 + 4 * len(made.layers)
    assert found["router_kernel"] == found["group_kernel"] == found["merge_norm_kernel"] == len(made.layers)
    assert found["settle_kernel"] == 1
    adapters = random_adapters(made)
    attach(made, {path: adapter for path, adapter in adapters.items() if path == "layers.0.self_attn.k_proj"})
    with counting() as more:
        program.run_step()
    assert more["linear8_kernel"] == found["linear8_kernel"] + 2
    assert isinstance(made.layers[0].self_attn.q_proj, PackedLinear)
    assert len(packed_weights(made)) == 1 + 3 + (4 + 3 + 2) + (3 + 3 + 2)

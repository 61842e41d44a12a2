"""All layers with the fused kernels between them, against the plain network, on a canvas and on text before it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine import kernels
from engine.adapters.lora import attach
from engine.config import GenerationConfig
from engine.decoding.protocols import LaunchStep
from engine.decoding.step_batch import launch_together
from engine.decoding.step_program import StepFacts, StepProgram
from engine.layers.attention import Span
from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.fused import FusedLayers
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import INT4, INT8, PRECISIONS, Precision
from tests.engine.adapting import random_adapters
from tests.engine.kernels.launches import counting
from tests.engine.packing import ToyScheme, packable, packed
from tests.engine.tiny import CANVAS, WINDOW, tokens


@pytest.mark.parametrize(
    ("length", "text", "quantization"),
    [
        (0, 0, "none"),
        (0, CANVAS, "none"),
        (5, 3, "none"),
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
    extends = [plain.writer(index) for index in range(len(made.layers))]
    want = made.run(canvas[None], positions[text:], {}, extends)[0]
    spans = {
        kind: Span(torch.tensor([bounds], dtype=torch.int32), text, WINDOW if kind == "sliding_attention" else None)
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


def program_on(made: DiffusionGemma, seed: int = 3, commits: bool = True) -> tuple[StepProgram, KVCache]:
    """A program that is to commit a canvas with its first step, and its cache, which it does not keep alive."""
    cache = made.new_cache()
    cache.reserve(30 + 2 * CANVAS)
    made.prefill(tokens(27 + seed), cache)
    program = StepProgram(made, cache, CANVAS)
    program.seed(seed)
    config = GenerationConfig(acceptance="entropy_bound_kept" if commits else "confidence_threshold")
    program.begin(tokens(CANVAS, seed=1), None, config, tokens(CANVAS, seed=2) if commits else None)
    return program, cache


def steps(program: StepProgram, count: int = 2) -> list[StepFacts]:
    facts = []
    for step in range(count):
        program.launch(step)
        found = program.collect(step)
        facts.append(StepFacts(*(part.clone() if isinstance(part, Tensor) else part for part in found)))
    return facts


def assert_alike(facts: list[StepFacts], wanted: list[StepFacts]) -> None:
    for found, plain in zip(facts, wanted, strict=True):
        for name in ("argmax", "candidates", "accepted", "next_canvas"):
            assert torch.equal(getattr(found, name), getattr(plain, name)), name
        assert found.converged == plain.converged
        torch.testing.assert_close(found.entropy, plain.entropy, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("quantization", "adapted"),
    [
        *(pytest.param("none", adapted, marks=pytest.mark.slow) for adapted in (False, True)),
        pytest.param("int4", False, marks=pytest.mark.slow),
        ("int4", True),
    ],
)
@torch.inference_mode()
def test_a_step_that_commits(quantization: str, adapted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that takes it by kernels alone, against one that takes it plainly; also with an adapter a mode."""
    made = packable() if quantization == "none" else packed(PRECISIONS[quantization])
    if adapted:
        attach(made, random_adapters(made))
    (plain, _plain_cache), (program, _cache) = program_on(made), program_on(made)
    program.fused = FusedLayers(made)
    wanted = steps(plain)
    if quantization != "none":  # there are no kernels for linear layers that are not packed
        monkeypatch.setattr(kernels, "kind_of", lambda _: "triton")
    with counting() as found:
        assert_alike(steps(program), wanted)
    # Of self-conditioning, a sliding layer and a full one: each by itself, or those with the same inputs in one.
    linears = 0 if quantization == "none" else 3 + 7 + 6 if adapted else 2 + 4 + 4
    assert found["linear_w8a16_kernel"] == 2 * linears
    assert found["router_kernel"] == found["merge_norm_kernel"] == 2 * len(made.layers)
    assert found["settle_kernel"] == 2


@torch.inference_mode()
def test_steps_of_two_runs_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of which commits a canvas, against each of them taken plainly and alone; weights are read once for both."""
    made = packed()
    attach(made, random_adapters(made))

    def two() -> list[tuple[StepProgram, KVCache]]:
        return [program_on(made), program_on(made, seed=7, commits=False)]

    alone, joint = two(), two()
    wanted = [steps(program, 1) for program, _ in alone]
    fused = FusedLayers(made)
    for program, _ in joint:
        program.fused = fused
    monkeypatch.setattr(kernels, "kind_of", lambda _: "triton")
    with counting() as found:
        launch_together([LaunchStep(program, 0) for program, _ in joint])
    for (program, _), facts in zip(joint, wanted, strict=True):
        assert_alike([program.collect(0)], facts)
    assert found["linear_w8a16_kernel"] == 3 + 7 + 6
    assert found["router_kernel"] == found["merge_norm_kernel"] == len(made.layers)
    assert found["score_kernel"] == found["merge_kernel"] == 1
    assert found["attention_kernel"] == found["head_norm_rope_kernel"] == 2 * len(made.layers)
    assert found["settle_kernel"] == 2


@torch.inference_mode()
def test_weights_of_four_bits_are_not_joined() -> None:
    """The published int4 checkpoint's attention has four bits: it goes by itself, the dense MLP does not."""
    made = packed(Precision(INT4, INT4, INT8, INT8))
    (plain, _plain_cache), (program, _cache) = program_on(made), program_on(made)
    program.fused = FusedLayers(made)
    assert program.fused.layers[0].projections is None
    assert program.fused.layers[0].gate_up is not None
    assert_alike(steps(program, 1), steps(plain, 1))


@torch.inference_mode()
def test_a_scheme_without_kernels_takes_the_plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that depend on no scheme are taken still."""
    toy = ToyScheme("toy", 32)
    made = packed(Precision(toy, toy, toy, toy))
    (plain, _plain_cache), (program, _cache) = program_on(made), program_on(made)
    program.fused = FusedLayers(made)
    wanted = steps(plain, 1)
    monkeypatch.setattr(kernels, "kind_of", lambda _: "triton")
    with counting() as found:
        assert_alike(steps(program, 1), wanted)
    assert found["linear_w8a16_kernel"] == found["gate_up_kernel"] == found["score_kernel"] == 0
    assert found["attention_kernel"] == found["merge_norm_kernel"] == len(made.layers)


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

"""The bench of a shape: what it measures adds up, and a wrong kernel does not pass. Not how fast anything is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from engine import SafelightError, kernels
from engine.benchmarks import step
from engine.benchmarks.measuring import random_network
from engine.benchmarks.step import check_layers, measure_shape
from engine.decoding.step_program import StepProgram
from engine.layers.packed_linear import packed_weights
from engine.memory.device import Placement, choose
from engine.quant import PRECISIONS, Packed, unpack
from tests.engine.packing import packable

CONFIG = packable().config
PRECISION = PRECISIONS["int4"]


@pytest.fixture(scope="module")
def placement() -> Placement:
    return choose("cpu", "float32")


def test_a_result_adds_up(placement: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []
    real = StepProgram.layers

    def counted(self: StepProgram, text_rows: int = 0) -> Tensor:
        passes.append(text_rows)
        return real(self, text_rows)

    monkeypatch.setattr(StepProgram, "layers", counted)
    result = measure_shape("tiny", CONFIG, PRECISION, placement, 30, 3, plan_bytes=10**9, parallel=3)
    assert passes[:4] == [0, 0, 0, CONFIG.canvas_length]  # a processor's steps take seconds: none warms up
    one, three = result["together"]
    assert (one["runs"], one["ratio"], three["runs"]) == (1, 1, 3)
    assert three["ratio"] == pytest.approx(3 * one["step_ms_median"] / three["step_ms_median"])
    assert set(result["parts_ms"]) == {"experts", "attention", "dense", "vocabulary", "sampler", "gaps"}
    assert sum(result["parts_ms"].values()) == pytest.approx(result["step_ms_median"])
    assert all(ms > 0 for part, ms in result["parts_ms"].items() if part != "gaps")
    assert result["commit_and_step_ms_median"] > 0
    assert (result["graph"], result["plain_reason"]) == (False, "the kernels need an NVIDIA GPU")
    assert set(result["oracle_error"]) == {"experts", "linear", "attention", "vocabulary"}
    packed = sum(t.nbytes for w in packed_weights(random_network(CONFIG, PRECISION, placement)) for t in w.buffers())
    assert packed < result["weight_bytes"] < 1.5 * packed
    assert result["floor_share"] == pytest.approx(result["read_gb_s"] / result["bandwidth_gb_s"])
    assert result["peak_of_plan"] == pytest.approx(result["peak_memory_mb"] / 1e3)
    assert json.loads(json.dumps(result))["precision"] == PRECISION.as_dict()


def rolled(weight: Packed, dim: int = -1) -> Packed:
    return dataclasses.replace(weight, scales=weight.scales.roll(1, dim))


MIXED_UP = {
    "linear": ("linear", lambda right, x, weight: right(x, rolled(weight))),
    "gate and up": ("experts", lambda right, *them: right(*them[:3], rolled(them[3]), them[4])),
    "down": ("experts", lambda right, *them: right(*them[:4], rolled(them[4]))),
    "another expert": ("experts", lambda right, x, weights, chosen, *them: right(x, weights, (chosen + 1) % 6, *them)),
    "another head": ("attend", lambda right, queries, *them: right(queries.roll(1, 0), *them)),
    "tokens": ("vocabulary_stage", lambda right, x, table, **them: right(x, rolled(table), **them)),
}


@pytest.mark.parametrize("name", MIXED_UP)
def test_a_kernel_that_takes_other_operands_is_found(
    name: str, placement: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not be if the scales of a random network were alike."""
    made = random_network(CONFIG, PRECISION, placement)
    kernel, mistaken = MIXED_UP[name]
    right = getattr(kernels, kernel)
    monkeypatch.setattr(kernels, kernel, lambda *arguments, **named: mistaken(right, *arguments, **named))
    said = {"attend": "attention", "vocabulary_stage": "vocabulary"}.get(kernel, kernel)
    with pytest.raises(SafelightError, match=f"the {said} kernel is wrong on this device: off by"):
        check_layers(made)


def test_right_kernels_pass_in_bf16() -> None:
    made = random_network(CONFIG, PRECISIONS["nf4"], choose("cpu", "bfloat16"))
    assert set(check_layers(made)) == {"experts", "linear", "attention", "vocabulary"}


def test_both_kinds_of_layer_are_checked(placement: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
    made = random_network(CONFIG, PRECISION, placement)
    right = kernels.linear
    full_queries = made.layers[1].self_attn.q_proj.weight.packed.codes

    def wrong(x: Tensor, weight: Packed) -> Tensor:
        return right(x, rolled(weight) if weight.codes.data_ptr() == full_queries.data_ptr() else weight)

    monkeypatch.setattr(kernels, "linear", wrong)
    with pytest.raises(SafelightError, match=r"neighbouring rows' scales would give \(layer 1, self_attn.q_proj\)"):
        check_layers(made)


def test_a_step_that_is_no_number_is_reported(placement: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
    made = random_network(CONFIG, PRECISION, placement)
    list(packed_weights(made))[-1].scales.fill_(float("nan"))
    monkeypatch.setattr(step, "random_network", lambda *_: made)
    with pytest.raises(SafelightError, match="logits that are not numbers on cpu"):
        measure_shape("tiny", CONFIG, PRECISION, placement, steps=1)


def test_codes_are_drawn_a_piece_at_a_time(placement: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = Tensor.random_

    def watched(self: Tensor, *arguments: Any, **named: Any) -> Tensor:
        sizes.append(self.nbytes)
        return real(self, *arguments, **named)

    monkeypatch.setattr("engine.benchmarks.measuring.DRAWN_AT_ONCE", 1000)
    monkeypatch.setattr(Tensor, "random_", watched)
    made, again = (random_network(CONFIG, PRECISION, placement, seed=3) for _ in range(2))
    assert max(sizes) == 1000
    assert all(torch.equal(one, other) for one, other in zip(made.buffers(), again.buffers(), strict=True))
    for weight in packed_weights(made):
        assert bool((weight.codes >= -127).all()) or weight.codes.dtype != torch.int8
        assert unpack(weight.packed).std().item() == pytest.approx(weight.shape[-1] ** -0.5, rel=0.2)


class Graph:
    """Stands in for a CUDA graph: while one is captured, only a generator that it knows may draw."""

    modes: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.known: list[torch.Generator] = []

    def register_generator_state(self, generator: torch.Generator) -> None:
        self.known.append(generator)

    def replay(self) -> None:
        """Repeats nothing."""


@pytest.fixture
def _captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures are stood in for, and watch the generators of all programs."""
    watched: list[torch.Generator] = []

    @contextmanager
    def capture(graph: Graph, *, capture_error_mode: str) -> Iterator[None]:
        before = [generator.get_state() for generator in watched]
        yield
        Graph.modes.append(capture_error_mode)
        for generator, state in zip(watched, before, strict=True):
            if generator not in graph.known and not torch.equal(generator.get_state(), state):
                raise RuntimeError("a generator drew in a capture that does not know it")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(step, "_has_graphs", lambda _: True)
    real = StepProgram.__init__

    def made(self: StepProgram, *arguments: Any, **named: Any) -> None:
        real(self, *arguments, **named)
        watched.append(self.generator)

    monkeypatch.setattr(StepProgram, "__init__", made)


@pytest.mark.usefixtures("_captured")
def test_every_part_is_captured_with_the_generator_it_draws_from(placement: Placement) -> None:
    """The whole bench runs, where each part of a step is a graph of its own."""
    result = measure_shape("tiny", CONFIG, PRECISION, placement, steps=1)
    assert set(result["parts_ms"]) == {"experts", "attention", "dense", "vocabulary", "sampler", "gaps"}
    assert set(Graph.modes) == {"thread_local"}


def test_the_context_must_fit(placement: Placement) -> None:
    small = dataclasses.replace(CONFIG, max_position_embeddings=64)
    with pytest.raises(SafelightError, match="between 0 and 54 tokens for this shape, not 55"):
        measure_shape("tiny", small, PRECISION, placement, context=55)

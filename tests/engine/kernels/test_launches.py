"""Launches of a step of the real shape, by name, and the counter itself."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from engine import catalog
from engine.benchmarks import step
from engine.config import GenerationConfig
from engine.decoding.step_batch import JointStep
from engine.decoding.step_program import TOP_PIECE, StepProgram
from engine.kernels import norms
from engine.kernels.linear_w8a16 import Cut
from engine.models.diffusion_gemma.fused import FusedLayers
from engine.models.registry import config_in
from engine.quant import PRECISIONS
from tests.engine.kernels.launches import counting
from tests.engine.kernels.step_launches import StepLaunches, empty, step_launches

MOST_LAUNCHES = 480  # of a step
REAL = config_in(catalog.shape("26b-a4b").folder)


@pytest.fixture(scope="module")
def counted() -> StepLaunches:
    return step_launches(REAL, PRECISIONS["int4"])


def test_a_step_of_the_real_shape(counted: StepLaunches) -> None:
    assert len(REAL.layers) == 30
    assert counted.layers == {"sliding_attention": 13, "full_attention": 13}  # the goal is 14
    assert counted.step <= MOST_LAUNCHES
    assert counted.commit_and_step <= counted.step
    # What is left beside the layers: a walk over the vocabulary, and two dozen launches at the ends.
    ends = counted.step - sum(counted.layers[layer.kind] for layer in REAL.layers)
    assert ends <= counted.names["score_kernel"] + counted.names["embed_kernel"] + 20


def test_a_layer_by_name(counted: StepLaunches) -> None:
    layers = len(REAL.layers)
    once = ("head_norm_rope", "attention", "join", "add_norm", "router", "group", "gate_up", "down", "merge_norm")
    assert {name: counted.names[f"{name}_kernel"] for name in once} == dict.fromkeys(once, layers)
    assert counted.names["linear_w8a16_kernel"] == 4 * layers + 2  # q k v, o, gate and up, down; conditioning's two
    torch_operations = {name: count for name, count in counted.names.items() if not name.endswith("_kernel")}
    assert sum(torch_operations.values()) <= 8, torch_operations


@pytest.mark.slow
def test_a_launch_more_in_a_layer_is_counted(counted: StepLaunches, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = FusedLayers.dense

    def dense(self: FusedLayers, *arguments: Any) -> torch.Tensor:
        return plain(self, *arguments) * 1.0

    monkeypatch.setattr(FusedLayers, "dense", dense)
    more = step_launches(REAL, PRECISIONS["int4"])
    assert more.step == counted.step + len(REAL.layers) + 1  # self-conditioning has a dense MLP, too
    assert more.layers == {kind: launches + 1 for kind, launches in counted.layers.items()}


@pytest.mark.slow
def test_likeliest_tokens_cost_a_walk_over_the_vocabulary(counted: StepLaunches) -> None:
    """Three launches a piece: logits, the best of them, their ids. So the inspector's step is within the goal, too."""
    pieces = -(-REAL.vocab_size // TOP_PIECE)
    found = step_launches(REAL, PRECISIONS["int4"], top_k=8).step
    assert counted.step + 3 * pieces < found <= MOST_LAUNCHES


def test_the_bench_takes_a_fused_step_apart() -> None:
    """Each part's launches are those of the step."""
    config = dataclasses.replace(REAL, layers=REAL.layers[4:6])
    with torch.inference_mode(), counting():
        network, cache = empty(config, PRECISIONS["int4"])
        program = StepProgram(network, cache, config.canvas_length)
        parts = step._record(program, GenerationConfig())
    launches = {}
    for part, work in parts.items():
        with torch.inference_mode(), counting() as found:
            work()
        launches[part] = found.total()
    assert launches.pop("vocabulary") > 32
    assert launches == {"attention": 2 * 5, "dense": 2 * 3, "experts": 2 * 4, "sampler": 3}
    assert "attention" not in vars(program.fused)


@torch.inference_mode()
def test_a_step_of_four_runs_reads_weights_once() -> None:
    """What depends on a run's cache, its random streams or its settings is launched for each, all else once."""
    config = dataclasses.replace(REAL, layers=REAL.layers[4:6])
    network, cache = empty(config, PRECISIONS["int4"])
    programs = [StepProgram(network, cache, config.canvas_length) for _ in range(4)]
    step = JointStep(programs, [False] * 4)
    for _ in range(2):  # what the first step makes once is no part of a step
        with counting() as found:
            step.run()
    once = (
        "linear_w8a16",
        "router",
        "group",
        "gate_up",
        "down",
        "add_norm",
        "merge_norm",
        "embed_rows",
        "norm",
        "merge",
    )
    each = ("attention", "join", "head_norm_rope", "settle", "rope")
    with counting() as alone:
        programs[0].run_step()
    for name in once:
        assert found[f"{name}_kernel"] == alone[f"{name}_kernel"] > 0, name
    for name in each:
        assert found[f"{name}_kernel"] == 4 * alone[f"{name}_kernel"] > 0, name
    walks = [sum(counts[f"{name}_kernel"] for name in ("score", "embed")) for counts in (found, alone)]  # in chunks
    assert (found.total() - walks[0]) - (alone.total() - walks[1]) <= 3 * 30
    commits = JointStep(programs, [True, False, True, False])
    with counting() as found:
        commits.run()
    assert found["linear_w8a16_kernel"] == alone["linear_w8a16_kernel"]


EVENLY = -1
# Programs a tile of a canvas, and of two of them, on an H100 or H200, an RTX 4090 and an RTX 5090.
CUTS = {
    "queries, keys, values": (8192, 2816, {132: (1, 1), 128: (1, 1), 170: (1, EVENLY)}),
    "queries, keys": (9216, 2816, {132: (EVENLY, EVENLY), 128: (EVENLY, EVENLY), 170: (1, 1)}),
    "out, sliding": (2816, 4096, {132: (3, EVENLY), 128: (EVENLY, EVENLY), 170: (3, EVENLY)}),
    "out, full": (2816, 8192, {132: (3, 3), 128: (EVENLY, EVENLY), 170: (3, EVENLY)}),
    "gate and up": (4224, 2816, {132: (2, 1), 128: (EVENLY, EVENLY), 170: (2, 1)}),
    "down": (2816, 2112, {132: (3, 1), 128: (2, 1), 170: (3, EVENLY)}),
}


@pytest.mark.parametrize("product", CUTS)
def test_how_the_real_products_are_cut(product: str) -> None:
    rows, inputs, wanted = CUTS[product]
    blocks = -(-inputs // 64)
    for processors, expected in wanted.items():
        for tokens, programs in zip((256, 512), expected, strict=True):
            tiles = -(-rows // 128) * (tokens // 128)
            cut = Cut.for_tiles(tiles, blocks, processors)
            assert (EVENLY if cut.programs else cut.splits) == programs, (processors, tokens)


# --- the counter ---------------------------------------------------------------------------------------------------


@triton.jit
def nothing_kernel(x_ptr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.store(x_ptr + tl.arange(0, SIZE), 0.0)


def names(found: Counter[str]) -> dict[str, int]:
    return dict(found)


def test_views_and_allocations_launch_nothing() -> None:
    x = torch.ones(4, 6)
    with counting() as found:
        parts = x.view(2, 12).t().split(3)[0][None].expand(2, 3, 2).unsqueeze(0)
        torch.empty_like(x)
        x.new_empty(3)
        x.contiguous()
        x.to(torch.float32)
        parts.reshape(2, 3, 2)
        torch.cat([x.new_empty(0), x.new_empty(0)])
    assert names(found) == {}


@pytest.mark.parametrize("inference", [False, True])
def test_what_computes_or_copies_counts_once(inference: bool) -> None:
    x, weight = torch.ones(4, 6), torch.ones(5, 6)
    with torch.inference_mode(inference), counting() as found:
        torch.nn.functional.linear(x, weight)
        x.t().contiguous()
        x.t().reshape(24)
        x.double()
        x += 1
        x.fill_(2)
        torch.softmax(x, -1)
        torch.cat([x, x])
    assert found.total() == 8, found


def test_a_kernel_on_nothing_is_counted_and_not_run() -> None:
    x, weight = (torch.ones(size, 64, device="meta")[0] for size in (3, 1))
    with counting() as found:
        nothing_kernel[(1,)](x, SIZE=64)
        norms.norm(x[None], weight, 1e-6)
    assert names(found) == {"nothing_kernel": 1, "norm_kernel": 1}
    with pytest.raises((RuntimeError, ValueError)):  # there is no driver, or it cannot read this memory
        nothing_kernel[(1,)](torch.ones(64), SIZE=64)

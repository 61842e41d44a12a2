"""Launches of a step of the real shape, by name."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from engine import catalog
from engine.benchmarks import step
from engine.config import GenerationConfig
from engine.decoding.step_batch import JointStep
from engine.decoding.step_program import StepProgram
from engine.models.folder import ModelFolder
from engine.quant import PRECISIONS
from tests.engine.kernels.launches import counting
from tests.engine.kernels.step_launches import StepLaunches, empty, step_launches

MAX_LAUNCHES = 480  # of a step
REAL = ModelFolder.open(catalog.shape("26b-a4b").folder).config


@pytest.fixture(scope="module")
def counted() -> StepLaunches:
    return step_launches(REAL, PRECISIONS["int4"])


def test_a_step_of_the_real_shape(counted: StepLaunches) -> None:
    assert len(REAL.layers) == 30
    assert counted.layers == {"sliding_attention": 13, "full_attention": 13}  # the goal is 14
    assert counted.step <= MAX_LAUNCHES
    assert counted.commit_and_step <= counted.step
    # Apart from the layers: a walk over the vocabulary, and two dozen launches at the ends.
    ends = counted.step - sum(counted.layers[layer.kind] for layer in REAL.layers)
    assert ends <= counted.names["score_kernel"] + counted.names["embed_kernel"] + 20


def test_a_layer_by_name(counted: StepLaunches) -> None:
    layers = len(REAL.layers)
    once = ("head_norm_rope", "attention", "join", "add_norm", "router", "group", "gate_up", "down", "merge_norm")
    assert {name: counted.names[f"{name}_kernel"] for name in once} == dict.fromkeys(once, layers)
    assert counted.names["linear_w8a16_kernel"] == 4 * layers + 2  # q k v, o, gate and up, down; conditioning's two
    torch_operations = {name: count for name, count in counted.names.items() if not name.endswith("_kernel")}
    assert sum(torch_operations.values()) <= 8, torch_operations


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
    """Kernels of a run's cache, random streams or settings are launched for each, all others once."""
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

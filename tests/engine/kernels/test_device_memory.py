"""Memory of a card that the 26B takes, counted tensor by tensor at its real shape, against the plan."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from engine import catalog
from engine.decoding.step_batch import JointStep
from engine.decoding.step_program import StepProgram
from engine.layers.kv_cache import KERNEL_PIECE, KVCache
from engine.memory import footprint
from engine.memory.several import joint_workspace, program_bytes
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.folder import ModelFolder
from engine.quant import PRECISIONS
from tests.engine.kernels.card import Memory, pretend
from tests.engine.kernels.step_launches import empty

CONTEXT, GB = 32_768, 10**9
CONFIG = dataclasses.replace(
    ModelFolder.open(catalog.shape("26b-a4b").folder).config, vision=None
)  # the tower waits on the host
CANVAS = CONFIG.canvas_length


def held_by(network: DiffusionGemma, *caches: KVCache) -> list[Tensor]:
    buffers = [part for cache in caches for index in range(len(network.layers)) for part in cache.buffers(index)]
    return [*network.parameters(), *network.buffers(), *buffers]


def fill(cache: KVCache, length: int) -> None:
    """The cache as if a text of this length had been read."""
    while cache.length < length:
        count = min(cache.piece, length - cache.length)
        cache.spans(0, count)
        cache.advance(count)


def plan_of(context: int, precision: str = "int4") -> dict[str, int]:
    return footprint.parts(DiffusionGemma, CONFIG, mode_of(precision), context)


def mode_of(precision: str) -> footprint.Mode:
    return footprint.Mode(torch.bfloat16, PRECISIONS[precision], False, True)


def read(network: DiffusionGemma, before: int, room: int) -> KVCache:
    """A cache behind a text, with so much room behind it."""
    network.fused()
    cache = network.new_cache()
    cache.reserve(before + room)
    fill(cache, before)
    return cache


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> DiffusionGemma:
    pretend(monkeypatch)
    return empty(CONFIG, PRECISIONS["int4"])[0]


def load(network: DiffusionGemma, patch: pytest.MonkeyPatch) -> Memory:
    """The weights as they come, one after the other; then those that kernels take together are moved together."""
    memory = Memory()
    patch.setattr(torch.cuda, "empty_cache", memory.empty_cache)
    for part in held_by(network):
        memory.take(part)
    with memory:
        network.fused()
    return memory


def counted_piece(network: DiffusionGemma, before: int) -> Memory:
    """Counts a whole piece of prefill behind a text."""
    cache = read(network, before, KERNEL_PIECE + CANVAS)
    with Memory(held_by(network, cache)) as memory:
        network.prefill(torch.zeros(KERNEL_PIECE, dtype=torch.long), cache)
    assert cache.length == before + KERNEL_PIECE
    return memory


def test_a_piece_takes_what_the_plan_says_whatever_lies_before_it(network: DiffusionGemma) -> None:
    short, long = counted_piece(network, 1500), counted_piece(network, CONTEXT)
    assert long.largest == short.largest < 64 << 20
    assert long.peak == pytest.approx(short.peak, abs=1 << 16)  # the first pass keeps a few small tables
    assert long.peak <= plan_of(CONTEXT)["activations"] <= 1.1 * long.peak


@torch.inference_mode()
def test_a_step_takes_what_the_plan_says(network: DiffusionGemma) -> None:
    """One that commits a canvas, reports the likeliest tokens and forbids some."""
    forbidden = torch.zeros(CONFIG.vocab_size, dtype=torch.bool, device="meta")
    cache = read(network, CONTEXT - CANVAS, 2 * CANVAS)
    program = StepProgram(network, cache, CANVAS, forbidden, top_k=8)
    own = [part for part in vars(program).values() if isinstance(part, Tensor)]
    with Memory([*held_by(network, cache), *own]) as memory:
        program.run_step(commits=True)
    found = memory.peak + sum(part.nbytes for part in own)
    assert found <= plan_of(CONTEXT)["workspace"] - footprint.LIBRARIES <= 1.05 * found


@pytest.mark.slow
@torch.inference_mode()
def test_a_pass_of_several_runs_takes_what_is_said(network: DiffusionGemma) -> None:
    """All of which commit a canvas, or none, as in a graph; with all that may be asked of them."""
    mode, runs = mode_of("int4"), 4
    caches = [read(network, CONTEXT - CANVAS, 2 * CANVAS) for _ in range(runs)]
    programs = [StepProgram(network, cache, CANVAS, top_k=8) for cache in caches]
    own = [part for program in programs for part in vars(program).values() if isinstance(part, Tensor)]
    for count in (2, runs):
        found = 0
        for commits in (True, False):
            with Memory([*held_by(network, *caches), *own]) as memory:
                JointStep(programs[:count], [commits] * count).run()
            found += memory.peak
        assert found <= joint_workspace(CONFIG, mode, CONTEXT, count) <= 1.06 * found
    held = sum(part.nbytes for part in [*own, *(span for program in programs for span in program.spans.values())])
    held += sum(program.soft.nbytes for program in programs)  # what a step predicted from, once one is taken
    assert held == runs * program_bytes(CONFIG, mode, top_k=8)


@pytest.mark.slow  # a step and a piece of a chat have shorter tests
@torch.inference_mode()
def test_the_device_memory_of_a_chat_that_grows_to_32k(
    network: DiffusionGemma, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments as torch's allocator takes them, libraries and context on top, against the plan: 18.0 GB at most."""
    memory = load(network, monkeypatch)
    with memory:
        cache = network.new_cache()
        for turn, length in enumerate((CONTEXT - 2000, CONTEXT)):
            cache.reserve(length + CANVAS)
            fill(cache, length - 1500)
            network.prefill(torch.zeros(1500 - CANVAS, dtype=torch.long), cache)
            cache.spans(CANVAS, CANVAS)
            kept = [StepProgram(network, cache, CANVAS >> halved, top_k=8) for halved in (4, 3, 2, 1, 0)]
            left = []
            for program in kept:
                for commits in (True, False):
                    memory.pool = "warm-up"
                    for _ in range(2):
                        program.run_step(commits)
                    memory.empty_cache()  # as a capture begins with
                    memory.pool = f"graph {turn}"
                    program.run_step(commits)
                    left.append(program.hidden)
                    memory.pool = "stream"
            cache.advance(CANVAS)
    planned = sum(plan_of(CONTEXT).values())
    taken = memory.most_reserved + footprint.LIBRARIES + footprint.CUDA_CONTEXT
    assert taken <= planned <= 1.025 * taken
    assert planned <= 18.0 * GB


@pytest.mark.parametrize("precision", ["none", "int4", "nvfp4"])
def test_segments_lose_no_more_of_the_weights_than_the_plan_says(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch)
    network, _ = empty(CONFIG, PRECISIONS[precision])
    memory = load(network, monkeypatch)
    held = sum(footprint.weights(DiffusionGemma, CONFIG, PRECISIONS[precision], torch.bfloat16).values())
    assert memory.live == pytest.approx(held, rel=1e-4)  # norms stacked besides
    assert memory.most_reserved - held <= memory.live // 20  # moving takes a layer more
    assert memory.reserved - held <= footprint.segments(CONFIG, held)

"""The step as a fixed program, run eagerly on the CPU, against the plain path fed with the program's own draws."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    SafelightError,
    StepFinished,
    generate,
)
from engine.decoding import sampling, step_program
from engine.decoding.sampler import Sampler
from engine.decoding.step_program import NOISE, StepFacts, StepProgram
from engine.decoding.steppers import MAX_CACHES, MAX_LENGTHS, ProgramCache
from engine.kernels.reference_step import draw_tokens
from engine.layers.kv_cache import PIECE, SLACK, KVCache
from engine.memory.footprint import PROGRAM_CANVASES
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.service.admission import MAX_IDLE
from tests.engine.decoding.seen import end_of, facts
from tests.engine.packing import packed
from tests.engine.tiny import CANVAS, VOCABULARY, WINDOW, network, tokens

SEED, STEPS = 11, 6
LONG = WINDOW + SLACK + 300  # sliding layers have dropped its beginning
CONFIG = GenerationConfig(max_denoising_steps=STEPS, entropy_bound=2.0, confidence_threshold=0.0)
TOLERANCE = 2e-5


def program_on(network: DiffusionGemma, prompt: Tensor) -> tuple[StepProgram, KVCache]:
    """A program and its cache, which it does not keep alive."""
    cache = network.new_cache()
    cache.reserve(len(prompt) + 2 * CANVAS)
    for piece in prompt.split(PIECE):
        if len(piece):
            network.prefill(piece, cache)
    program = StepProgram(network, cache, CANVAS)
    program.seed(SEED)
    return program, cache


def steps_of(
    program: StepProgram,
    canvas: Tensor,
    config: GenerationConfig,
    committed: Tensor | None = None,
) -> list[StepFacts]:
    program.begin(canvas, None, config, committed)
    steps = []
    for step in range(config.max_denoising_steps):
        program.launch(step)
        if step == 0 and committed is not None:
            program.cache.advance(len(committed))
        found = program.collect(step)
        steps.append(StepFacts(*(part.clone() if isinstance(part, Tensor) else part for part in found)))
    return steps


def assert_agree(
    network: DiffusionGemma,
    program: StepProgram,
    canvas: Tensor,
    steps: list[StepFacts],
    config: GenerationConfig,
) -> None:
    """Each step as the plain path takes it from the same canvas, with the same draws."""
    noise = torch.Generator().manual_seed(SEED ^ NOISE)
    conditioning, previous = None, None
    for step, found in enumerate(steps):
        logits = network.denoise(canvas, program.cache, conditioning) / config.temperature(step)
        entropy = sampling.token_entropy(logits)
        torch.testing.assert_close(found.entropy, entropy, rtol=0, atol=TOLERANCE * 4**step)
        assert torch.equal(found.argmax, logits.argmax(dim=-1)), step
        assert torch.equal(found.candidates, draw_tokens(logits, SEED, step)), step
        accepted = sampling.accept_mask(found.entropy, config.entropy_bound)
        assert torch.equal(found.accepted, accepted), step
        canvas = sampling.renoise(found.candidates, accepted, sampling.uniform_tokens((CANVAS,), VOCABULARY, noise))
        assert torch.equal(found.next_canvas, canvas), step
        stable = previous is not None and torch.equal(found.argmax, previous)
        assert found.converged == (stable and bool(entropy.mean() < config.confidence_threshold))
        assert found.finite
        conditioning, previous = logits, found.argmax


def test_a_packed_network_by_a_program_agrees_with_the_plain_path() -> None:
    """Others: ``test_program_rules``."""
    made = packed()
    made.self_conditioning.down_proj.weight.scales.mul_(0.1)
    program, _cache = program_on(made, tokens(9))
    canvas = tokens(CANVAS, seed=3)
    assert_agree(made, program, canvas, steps_of(program, canvas, CONFIG), CONFIG)


def test_the_facts_of_a_step_survive_the_launch_of_the_next() -> None:
    made = network()
    program, _cache = program_on(made, tokens(6))
    program.begin(tokens(CANVAS), None, CONFIG)
    program.launch(0)
    first = program.collect(0)
    kept = first.argmax.clone(), first.entropy.clone()
    program.launch(1)
    assert torch.equal(first.argmax, kept[0])
    assert torch.equal(first.entropy, kept[1])


class RunsAside(ProgramCache):
    """Launches a step before the last one is looked at, as on a GPU."""

    def get(self, network: DiffusionGemma, cache: KVCache, sampler: Sampler) -> StepProgram:
        program = super().get(network, cache, sampler)
        program.runs_aside = True
        return program


@dataclass
class OnDevice:
    """A model whose steps are programs, here without a device of their own."""

    network: DiffusionGemma
    has_step_program = True
    derived: dict[type, object] = field(default_factory=lambda: {ProgramCache: RunsAside()})
    read: list[int] = field(default_factory=list)  # tokens of each causal pass

    def __getattr__(self, name: str) -> object:
        return getattr(self.network, name)

    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor:
        self.read.append(len(ids))
        return self.network.prefill(ids, cache)


def generation(
    model: OnDevice,
    prompt: Tensor | None = None,
    cache: KVCache | None = None,
    cancel: threading.Event | None = None,
    **changes: object,
) -> Iterator[Event]:
    config = CONFIG.replace(**{"max_new_tokens": 3 * CANVAS, "eos_token_ids": (), **changes})
    return generate(model, tokens(7) if prompt is None else prompt, config, 5, cancel, cache)  # type: ignore[arg-type]


def run(model: OnDevice, prompt: Tensor | None = None, cache: KVCache | None = None, **changes: object) -> list[Event]:
    return list(generation(model, prompt, cache, **changes))


def test_no_step_is_taken_in_vain_where_none_runs_aside() -> None:
    """A step on a CPU takes seconds: none begins before the last one's event was looked at."""
    launched: list[int] = []

    class InPlace(ProgramCache):
        def get(self, network: DiffusionGemma, cache: KVCache, sampler: Sampler) -> StepProgram:
            program = super().get(network, cache, sampler)
            real = program.launch
            program.launch = lambda index: (launched.append(index), real(index))[1]  # type: ignore[method-assign]
            return program

    seen = 0
    for event in generation(OnDevice(network(), derived={ProgramCache: InPlace()}), max_new_tokens=CANVAS):
        if isinstance(event, StepFinished):
            seen += 1
            assert len(launched) == seen
    assert seen == STEPS


@pytest.mark.parametrize("piece", [50, 4096])
def test_top_tokens(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found in pieces of the vocabulary or in the whole as plain steps find them; a pinned position is certain."""
    monkeypatch.setattr("engine.decoding.step_program.TOP_PIECE", piece)
    made = network()
    events = run(OnDevice(made), top_k=4, pinned=((2, 40),), max_denoising_steps=1)
    step = next(event for event in events if isinstance(event, StepFinished))
    start = next(event for event in events if isinstance(event, CanvasStarted))
    cache = made.new_cache()
    made.prefill(tokens(7), cache)
    logits = made.denoise(torch.from_numpy(start.canvas).long(), cache) / step.temperature
    want = torch.softmax(logits, dim=-1).topk(4, dim=-1)
    free = [place for place in range(CANVAS) if place != 2]
    assert step.top_tokens is not None
    assert step.top_probabilities is not None
    np.testing.assert_array_equal(step.top_tokens[free], want.indices.numpy()[free])
    np.testing.assert_allclose(step.top_probabilities[free], want.values.numpy()[free], atol=1e-5)
    assert step.top_tokens[2, 0] == 40
    assert step.top_probabilities[2].tolist() == [1, 0, 0, 0]
    assert step.candidates[2] == step.next_canvas[2] == 40


def test_non_finite_logits_end_a_generation_by_programs() -> None:
    made = network()
    made.layers[1].mlp.up_proj.weight[0, 0] = float("nan")
    with pytest.raises(SafelightError, match="non-finite logits in block 1, step 1"):
        run(OnDevice(made))


# --- the step that commits -------------------------------------------------------------------------------------------


def tame() -> DiffusionGemma:
    """A network that does not amplify rounding from step to step."""
    made = network()
    made.self_conditioning.down_proj.weight.mul_(0.1)
    return made


def assert_same_steps(found: list[StepFacts], wanted: list[StepFacts]) -> None:
    assert len(found) == len(wanted)
    for step, (one, other) in enumerate(zip(found, wanted, strict=True)):
        torch.testing.assert_close(one.entropy, other.entropy, rtol=0, atol=TOLERANCE * 4**step)
        for name in ("argmax", "candidates", "accepted", "next_canvas"):
            assert torch.equal(getattr(one, name), getattr(other, name)), (step, name)
        assert one.converged == other.converged


def text_kept(network: DiffusionGemma, cache: KVCache) -> list[Tensor]:
    """Keys and values of the text that a canvas would look at."""
    spans = cache.spans(CANVAS)
    kinds = [layer.kind for layer in network.config.layers]
    return [
        buffer[:, :, spans[kind][0] : spans[kind][1] - CANVAS]
        for index, kind in enumerate(kinds)
        for buffer in cache.buffers(index)
    ]


@pytest.mark.parametrize(("length", "window"), [(0, WINDOW), (5, CANVAS + 3), (LONG, WINDOW), (LONG, 40)])
@torch.inference_mode()  # as the passes are that allocate the buffers
def test_a_step_that_commits_is_a_commit_and_a_step(length: int, window: int) -> None:
    made, finished, canvas = network(sliding_window=window), tokens(CANVAS, seed=6), tokens(CANVAS, seed=3)
    made.self_conditioning.down_proj.weight.mul_(0.1)
    apart, other = program_on(made, tokens(length))
    made.prefill(finished, other)
    wanted = steps_of(apart, canvas, CONFIG)
    merged, cache = program_on(made, tokens(length))
    found = steps_of(merged, canvas, CONFIG, committed=finished)
    assert_same_steps(found, wanted)
    assert cache.length == other.length == length + CANVAS
    for one, two in zip(text_kept(made, cache), text_kept(made, other), strict=True):
        assert one.shape == two.shape
        torch.testing.assert_close(one, two, rtol=0, atol=TOLERANCE)
    assert_agree(made, merged, canvas, found, CONFIG)  # and both are what the plain path does


def test_a_second_turn_after_steps_that_committed_reads_only_what_is_new() -> None:
    model = OnDevice(tame())
    cache = model.network.new_cache()
    prompt = tokens(LONG, 3)
    done = end_of(run(model, prompt, cache))
    second = torch.cat([prompt, torch.from_numpy(done.tokens).long(), tokens(7, 4)])
    model.read.clear()
    again = run(model, second, cache)
    assert model.read == [CANVAS + 7]  # the last canvas, and what was asked
    fresh = run(OnDevice(model.network), second)
    assert_same_text(again, fresh)


def assert_same_text(found: list[Event], wanted: list[Event]) -> None:
    one, other = found[-1], wanted[-1]
    assert isinstance(one, GenerationFinished)
    assert isinstance(other, GenerationFinished)
    np.testing.assert_array_equal(one.tokens, other.tokens)


def test_a_step_that_fails_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = OnDevice(tame())
    cache = model.network.new_cache()
    events = generation(model, tokens(12), cache)
    committed = next(event for event in events if isinstance(event, CanvasCommitted))
    with monkeypatch.context() as patch:

        def fail(*_: object) -> Tensor:
            raise MemoryError

        patch.setattr(model.network.layers[1], "forward", fail)
        with pytest.raises(MemoryError):
            list(events)
    assert cache.length == 12
    second = torch.cat([tokens(12), torch.from_numpy(committed.tokens).long()])
    assert_same_text(run(model, second, cache), run(OnDevice(model.network), second))


def test_steps_undone_leave_no_trace() -> None:
    """Steps before a capture are undone."""
    runs, committed = list[list[list[Tensor]]](), tokens(CANVAS, seed=6)
    for undone in (0, 2):
        program, cache = program_on(tame(), tokens(30))
        steps_of(program, tokens(CANVAS, seed=4), CONFIG)
        program.begin(tokens(CANVAS, seed=3), None, CONFIG, committed)
        before = [kept.clone() for kept in text_kept(program.network, cache)]
        with program.undone():
            for commits in (True, False):
                for _ in range(undone):
                    program.run_step(commits)
        for kept, now in zip(before, text_kept(program.network, cache), strict=True):
            assert torch.equal(kept, now)
        runs.append([])
        for step in range(3):
            program.launch(step)
            runs[-1].append([part.clone() for part in program.collect(step) if isinstance(part, Tensor)])
    for one, other in zip(*runs, strict=True):
        assert all(torch.equal(part, again) for part, again in zip(one, other, strict=True))


# --- one program for many runs ---------------------------------------------------------------------------------------


def sampler(network: DiffusionGemma, **changes: object) -> Sampler:
    return Sampler.from_settings(network.config, CONFIG.replace(**changes), torch.device("cpu"), 5)


def test_the_last_program_serves_again_where_it_can() -> None:
    made, last = network(), ProgramCache()
    cache, other = made.new_cache(), made.new_cache()
    program = last.get(made, cache, sampler(made))
    assert last.get(made, cache, sampler(made, max_denoising_steps=3, entropy_bound=0.0)) is program
    cache.reserve(1000)  # a program looks where the buffers are
    assert last.get(made, cache, sampler(made)) is program
    for changes in ({"top_k": 2}, {"banned_tokens": (5, 6)}, {"banned_tokens": (5, 7)}, {"canvas_length": 4}):
        following = last.get(made, cache, sampler(made, **changes))
        assert following is not program
        program = following
    assert last.get(made, other, sampler(made, canvas_length=4)) is not program


def test_the_programs_of_several_lengths_are_kept_as_far_as_the_plan_counts_them() -> None:
    made, last = network(), ProgramCache()
    cache, other = made.new_cache(), made.new_cache()

    def program(length: int, of: KVCache = cache) -> StepProgram:
        return last.get(made, of, sampler(made, canvas_length=length))

    def kept(of: KVCache = cache) -> list[int]:
        return [length for place, length in last._kept if place() is of]

    halves = [program(length) for length in (CANVAS, CANVAS // 2, CANVAS // 4)]
    apart = program(CANVAS, other)
    assert [program(length) for length in (CANVAS, CANVAS // 2, CANVAS // 4)] == halves
    program(CANVAS - 1)  # the rows of two canvases are left to it: the longest unused goes
    assert kept() == [CANVAS // 2, CANVAS // 4, CANVAS - 1]
    assert sum(kept()) <= PROGRAM_CANVASES * CANVAS
    program(3 * CANVAS)  # has more than all may have
    assert kept() == [3 * CANVAS]
    for length in range(1, MAX_LENGTHS + 2):
        program(length)
    assert kept() == [*range(2, MAX_LENGTHS + 2)]
    assert program(CANVAS, other) is apart
    gone = weakref.ref(program(CANVAS // 2, other))
    del other
    assert gone() is None
    assert len(last._kept) == MAX_LENGTHS


def test_a_model_keeps_the_programs_of_its_last_caches() -> None:
    """Programs with the same bans share a mask, so that these runs go through the table together."""
    assert MAX_CACHES == MAX_IDLE  # each cache of the pool has its programs
    made, last = network(), ProgramCache()
    caches, banning = [made.new_cache() for _ in range(MAX_CACHES + 1)], sampler(made, banned_tokens=(3,))
    programs = [last.get(made, cache, banning) for cache in caches[:MAX_CACHES]]
    assert len({id(program.forbidden) for program in programs}) == 1
    assert last.get(made, caches[0], banning) is programs[0]
    last.get(made, caches[-1], banning)
    assert [of() for of, _ in last._kept] == [*caches[2:MAX_CACHES], caches[0], caches[-1]]
    kept = weakref.ref(last)
    del last
    assert kept() is None  # at once: there is no circle


class Graph:
    """Stands in for a CUDA graph: taken anew, and knows where the buffers were."""

    def __init__(self, program: StepProgram, commits: bool) -> None:
        self.program, self.commits, self.known = program, commits, list(program.known)

    def replay(self) -> None:
        places = [part.data_ptr() for index in range(3) for part in self.program.cache.buffers(index)]
        assert self.known == places
        self.program.run_step(self.commits)


def test_graphs_are_captured_where_they_are_missing_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    captured: list[bool] = []

    def capture(program: StepProgram, commits: bool) -> Graph:
        captured.append(commits)
        for _ in range(2):
            program.run_step(commits)
        return Graph(program, commits)

    monkeypatch.setattr(StepProgram, "_capture", capture)
    model = OnDevice(network())
    cache = model.network.new_cache()
    for length, changes, wanted in (
        (7, {"max_new_tokens": CANVAS}, [False]),  # one block: nothing is ever committed
        (7, {}, [True]),
        (30, {}, []),
        (900, {}, [False, True]),  # the buffers have moved
    ):
        captured.clear()
        cache.truncate(0)
        program = ProgramCache.of_model(model).get(model.network, cache, sampler(model.network))
        program.captures = True
        found = run(model, tokens(length), cache, **changes)
        assert captured == wanted
        assert facts(found) == facts(run(OnDevice(model.network), tokens(length), **changes))
    program, cache = program_on(model.network, tokens(30))
    program.captures = True
    captured.clear()
    program.begin(tokens(CANVAS), None, CONFIG, tokens(CANVAS))
    assert captured == []  # a step in one pass with other runs' does not need them
    program.launch(0)
    assert captured == [True, False]  # the one that commits writes what the other looks at


def test_graphs_of_several_lengths_are_captured_once_and_share_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    captured: list[int] = []

    class Pooled(Graph):
        def __init__(self, program: StepProgram, pool: object) -> None:
            super().__init__(program, commits=False)
            self.own = pool or object()

        def pool(self) -> object:
            return self.own

    def capture(programs: list[StepProgram], step: object, pool: object) -> tuple[Pooled, None]:
        assert callable(step)
        step()
        captured.append(programs[0].length)
        return Pooled(programs[0], pool), None

    monkeypatch.setattr(step_program, "capture", capture)
    model = OnDevice(network())
    cache = model.network.new_cache()
    lengths = CANVAS // 2, CANVAS, CANVAS // 4
    for length in lengths * 2:
        cache.truncate(0)
        settings = {"canvas_length": length, "max_new_tokens": length}
        program = ProgramCache.of_model(model).get(model.network, cache, sampler(model.network, **settings))
        program.captures = True
        found = run(model, tokens(7), cache, **settings)
        assert facts(found) == facts(run(OnDevice(model.network), tokens(7), **settings))
    assert captured == [*lengths]
    assert len({graph.pool() for one in program.of_cache for graph in one.graphs.values()}) == 1
    other, _cache = program_on(model.network, tokens(7))
    assert program not in other.of_cache

"""Steps of several runs in one pass, against the same runs alone."""

from __future__ import annotations

import dataclasses
import random
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import Event, GenerationConfig, GenerationFinished
from engine.benchmarks.measuring import random_network
from engine.decoders import ACCEPTANCE
from engine.decoding import step_batch
from engine.decoding.generate import decode, generate
from engine.decoding.performing import perform
from engine.decoding.protocols import Decoding, LaunchStep, Pass
from engine.decoding.run import Run
from engine.decoding.step_batch import JointGraphs, launch_together
from engine.decoding.step_program import StepFacts, StepProgram
from engine.layers.kv_cache import KVCache
from engine.memory.device import Placement
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import PRECISIONS
from tests.engine.decoding.seen import facts
from tests.engine.decoding.test_step_program import OnDevice, tame
from tests.engine.packing import SHAPE
from tests.engine.tiny import CANVAS, CONFIG, VOCABULARY, tokens

STEPS = 4
NATS = 0.05  # that an entropy may differ by in bf16, after a step from the same state


@dataclass(frozen=True)
class Asked:
    """A run, as it is before its canvas."""

    seed: int
    text: int  # tokens before the canvas
    canvas: int = CANVAS
    commits: bool = False
    forbidden: Tensor | None = None
    pinned: bool = False
    top_k: int = 0

    @staticmethod
    def drawn(random: random.Random) -> Asked:
        return Asked(
            random.randrange(10**6),
            random.choice((0, 5, 30, 700)),
            random.choice((CANVAS, CANVAS - 3, 16)),
            random.random() < 0.4,
            random.choice((None, None, EVEN, LOW)),
            random.random() < 0.3,
            random.choice((0, 0, 3, 5)),
        )

    def begun(self, network: DiffusionGemma) -> tuple[StepProgram, KVCache]:
        cache = network.new_cache()
        cache.reserve(self.text + 2 * self.canvas)
        if self.text:
            network.prefill(tokens(self.text, self.seed), cache)
        program = StepProgram(network, cache, self.canvas, self.forbidden, top_k=self.top_k)
        program.seed(self.seed)
        config = GenerationConfig(
            max_denoising_steps=STEPS + self.seed % 3,
            entropy_bound=0.5 + self.seed % 4,
            confidence_threshold=self.seed % 2 * 3.0,
            t_max=0.9 - 0.1 * (self.seed % 4),
            acceptance=list(ACCEPTANCE)[self.seed % 3],
            accept_probability=0.1 * (1 + self.seed % 5),
        )
        pinned = None
        if self.pinned:
            pinned = torch.full((self.canvas,), -1, dtype=torch.int32)
            pinned[self.seed % self.canvas] = 7
        committed = tokens(self.canvas, self.seed + 2) if self.commits else None
        program.begin(tokens(self.canvas, self.seed + 1), pinned, config, committed)
        return program, cache


EVEN = torch.arange(VOCABULARY) % 2 == 1
LOW = torch.arange(VOCABULARY) > 90


def taken(launch: Callable[[int], None], program: StepProgram, index: int) -> StepFacts:
    launch(index)
    return copied(program, index)


def copied(program: StepProgram, index: int) -> StepFacts:
    found = program.collect(index)
    top = None if found.top is None else (found.top[0].clone(), found.top[1].clone())
    return StepFacts(*(part.clone() if isinstance(part, Tensor) else part for part in found[:-1]), top)


def written(program: StepProgram) -> list[Tensor]:
    """Keys and values of what the canvas attends to, itself included."""
    kinds = [layer.kind for layer in program.network.config.layers]
    spans = {kind: bounds[0].tolist() for kind, bounds in program.spans.items()}
    return [
        buffer[:, :, slice(*spans[kind])].clone()
        for index, kind in enumerate(kinds)
        for buffer in program.cache.buffers(index)
    ]


def assert_alike(found: StepFacts, wanted: StepFacts, nats: float) -> None:
    for name in ("argmax", "candidates", "accepted", "next_canvas"):
        assert torch.equal(getattr(found, name), getattr(wanted, name)), name
    assert (found.converged, found.finite) == (wanted.converged, wanted.finite)
    torch.testing.assert_close(found.entropy, wanted.entropy, rtol=0, atol=nats)
    assert (found.top is None) == (wanted.top is None)
    if found.top is not None and wanted.top is not None:
        torch.testing.assert_close(found.top[1], wanted.top[1], rtol=0, atol=nats)


def packed(quantization: str, seed: int) -> DiffusionGemma:
    """Random weights as a packed model has them on a processor."""
    config = dataclasses.replace(CONFIG, **SHAPE)
    place = Placement(torch.device("cpu"), torch.bfloat16, "asked for")
    made = random_network(config, PRECISIONS[quantization], place, seed)
    made.self_conditioning.down_proj.weight.scales.mul_(0.1)  # a random model amplifies rounding from step to step
    return made


def together(programs: Sequence[StepProgram], index: int) -> list[StepFacts]:
    launch_together([LaunchStep(program, index) for program in programs])
    return [copied(program, index) for program in programs]


@pytest.mark.parametrize(("count", "seed"), [(2, 0), (4, 2)])
@torch.inference_mode()
def test_runs_together_are_what_each_is_alone(count: int, seed: int) -> None:
    """Runs of all sorts in fp32 have the same tokens; entropies, likeliest tokens, keys and values up to rounding."""
    network, choose = tame(), random.Random(seed)
    asked = [Asked.drawn(choose) for _ in range(count)]
    asked = [dataclasses.replace(one, seed=3 * one.seed + place) for place, one in enumerate(asked)]  # a rule each
    alone = [one.begun(network) for one in asked]
    joint = [one.begun(network) for one in asked]
    for index in range(STEPS):
        found = together([program for program, _ in joint], index)
        for facts_found, (program, _), (other, _) in zip(found, alone, joint, strict=True):
            assert_alike(facts_found, taken(program.launch, program, index), 2e-5 * 4**index)
            for one, two in zip(written(program), written(other), strict=True):
                torch.testing.assert_close(one, two, rtol=0, atol=2e-5 * 4**index)
            assert torch.equal(program.kept, other.kept)
            torch.testing.assert_close(program.hidden, other.hidden, rtol=0, atol=1e-4 * 4**index)
    assert len({program.rule.accept for program, _ in joint}) > 1


def advanced(model: Any, runs: Sequence[Decoding[None]], choose: random.Random) -> list[list[Event]]:
    """Decoders taken on by joint passes; now and then one waits, as where its client reads slowly."""
    found: list[list[Event]] = [[] for _ in runs]
    waiting: dict[int, Pass] = {}
    going = set(range(len(runs)))
    sizes = set[int]()
    with torch.inference_mode():
        while going:
            for place in sorted(going - waiting.keys()):
                for item in runs[place]:
                    if isinstance(item, Pass):
                        waiting[place] = item
                        break
                    found[place].append(item)
                else:
                    going.remove(place)
            due = [place for place in waiting if choose.random() < 0.8 or len(waiting) == 1]
            steps = [waiting[place] for place in due]
            launches = [item for item in steps if isinstance(item, LaunchStep)]
            sizes.add(len(launches))
            launch_together(launches)
            for item in steps:
                if not isinstance(item, LaunchStep):
                    perform(model, item)
            for place in due:
                del waiting[place]
    assert max(sizes) > 1
    return found


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_decoders_taken_on_together_report_what_each_reports_alone(seed: int) -> None:
    """Prompts, settings, canvases and ends of their own: one is cancelled, others end at the same time or not."""
    choose = random.Random(seed)
    model: Any = OnDevice(packed("int4", seed))
    flags = [threading.Event() for _ in range(4)]
    flags[3].set()
    settings = [
        GenerationConfig(
            max_new_tokens=choose.choice((1, 2 * CANVAS, 3 * CANVAS)),
            max_denoising_steps=choose.choice((2, 3, 5)),
            confidence_threshold=choose.choice((0.0, 4.0)),
            acceptance=list(ACCEPTANCE)[(place + seed) % len(ACCEPTANCE)],
            accept_probability=0.3,
            canvas_length=choose.choice((None, None, 7)),
            banned_tokens=choose.choice(((), (), (3, 4))),
            top_k=choose.choice((0, 3)),
            eos_token_ids=(),
        )
        for place in range(len(flags))
    ]
    asked = [(tokens(choose.choice((3, 12, 60)), place), place + 10) for place in range(len(flags))]
    wanted = [
        facts(generate(model, prompt, config, own, flag))
        for (prompt, own), config, flag in zip(asked, settings, flags, strict=True)
    ]
    runs = [
        decode(Run.from_ids(model, prompt, config, own, flag))
        for (prompt, own), config, flag in zip(asked, settings, flags, strict=True)
    ]
    found = advanced(model, runs, choose)
    assert [facts(events) for events in found] == wanted
    ends = [events[-1] for events in found]
    assert [end.reason for end in ends if isinstance(end, GenerationFinished)] == [*["length"] * 3, "cancelled"]


@torch.inference_mode()
def test_what_is_no_number_in_one_run_is_no_neighbours_business() -> None:
    network = packed("int4", 0)
    asked = [Asked(seed, 12, commits=seed == 2) for seed in range(3)]
    alone, joint = ([one.begun(network) for one in asked] for _ in range(2))
    joint[1][0].soft.fill_(torch.nan)
    found = together([program for program, _ in joint], 0)
    assert [each.finite for each in found] == [True, False, True]
    for place in (0, 2):
        assert_alike(found[place], taken(alone[place][0].launch, alone[place][0], 0), NATS)


@torch.inference_mode()
def test_a_pass_that_fails_leaves_its_runs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    network = tame()
    asked = [Asked(1, 12, commits=True), Asked(2, 30)]
    alone, joint = ([one.begun(network) for one in asked] for _ in range(2))
    with monkeypatch.context() as patch:

        def fail(*_: object) -> Tensor:
            raise MemoryError

        patch.setattr(network.layers[2], "forward", fail)
        with pytest.raises(MemoryError):
            together([program for program, _ in joint], 0)
    for (program, _), (other, _) in zip(joint, alone, strict=True):
        assert_alike(taken(program.launch, program, 0), taken(other.launch, other, 0), 0.0)


@torch.inference_mode()
def test_one_alone_is_launched_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    network = tame()
    (program, _cache), (other, _other_cache) = (Asked(1, 5).begun(network) for _ in range(2))
    launched: list[int] = []
    monkeypatch.setattr(StepProgram, "launch", lambda _, index: launched.append(index))
    launch_together([])
    assert launched == []
    launch_together([LaunchStep(program, 3)])
    assert launched == [3]
    with pytest.raises(ValueError, match="different programs"):
        launch_together([LaunchStep(program, 0), LaunchStep(program, 0)])
    foreign, _foreign_cache = Asked(1, 5).begun(tame())
    with pytest.raises(ValueError, match="one network"):
        launch_together([LaunchStep(other, 0), LaunchStep(foreign, 0)])


# --- graphs ----------------------------------------------------------------------------------------------------------


class Graph:
    """Stands in for a CUDA graph: taken anew into the same memory."""

    def __init__(self, step: Callable[[], Tensor], hidden: Tensor) -> None:
        self.step, self.hidden = step, hidden

    def replay(self) -> None:
        self.hidden.copy_(self.step())

    def pool(self) -> None:
        return None


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Captures stood in for; the number of programs of each."""
    found: list[int] = []

    def capture(programs: Sequence[StepProgram], step: Callable[[], Tensor], _pool: None) -> tuple[Graph, Tensor]:
        found.append(len(programs))
        for _ in range(2):
            step()
        hidden = step().clone()
        return Graph(step, hidden), hidden

    def alone(program: StepProgram, commits: bool) -> Any:
        raise AssertionError(f"no step of {program} is taken alone, {commits}")

    monkeypatch.setattr(step_batch, "capture", capture)
    monkeypatch.setattr(StepProgram, "_capture", alone)
    return found


def begun_on_card(asked: Asked, network: DiffusionGemma) -> tuple[StepProgram, KVCache]:
    program, cache = asked.begun(network)
    program.captures = True
    program._drop_graphs_of_others()
    return program, cache


@torch.inference_mode()
def test_what_comes_again_is_captured_and_stays_what_it_was(captured: list[int]) -> None:
    network = tame()
    asked = [Asked(1, 12, commits=True), Asked(2, 30), Asked(3, 5, pinned=True, top_k=3)]
    alone = [one.begun(network) for one in asked]
    joint = [begun_on_card(one, network) for one in asked]
    for index, wanted in enumerate(([], [], [3], [3])):  # one that commits is not; new; again; replayed
        found = together([program for program, _ in joint], index)
        assert captured == wanted
        for facts_found, (program, _), (other, _) in zip(found, alone, joint, strict=True):
            assert_alike(facts_found, taken(program.launch, program, index), 2e-5 * 4**index)
            torch.testing.assert_close(program.hidden, other.hidden, rtol=0, atol=1e-3)
    held = joint[1][0].hidden
    assert held is not None
    before = held.clone()
    together([program for program, _ in joint], 4)
    assert torch.equal(held, before)  # it does not lie in the graph's memory, which other graphs share
    cache = joint[1][1]
    cache.reserve(2000)
    joint[1][0]._drop_graphs_of_others()
    together([program for program, _ in joint], 5)
    assert captured == [3, 3]  # buffers have moved
    together([program for program, _ in joint[:2]], 6)
    together([program for program, _ in joint[:2]], 7)
    assert captured == [3, 3, 2]
    launch_together([LaunchStep(program, 8) for program, _ in joint[1:]], captures=False)
    launch_together([LaunchStep(program, 9) for program, _ in joint[1:]], captures=False)
    assert captured == [3, 3, 2]


@torch.inference_mode()
def test_graphs_keep_neither_programs_nor_caches_alive(captured: list[int]) -> None:
    network = tame()
    joint = [begun_on_card(Asked(seed, 5), network) for seed in range(2)]
    for index in range(3):
        together([program for program, _ in joint], index)
    assert captured == [2]
    graphs, gone = JointGraphs.of_network(network), [weakref.ref(part) for pair in joint for part in pair]
    kept = list(graphs._kept.values())
    assert len(kept) == 1
    # A real graph holds memory alone; the one that stands in for it has the step.
    kept[0].graph.step = None  # type: ignore[union-attr, attr-defined]
    del joint
    assert [part() for part in gone] == [None] * 4
    others = [begun_on_card(Asked(seed, 5), network) for seed in range(2)]
    together([program for program, _ in others], 0)
    assert len(graphs._kept) == 1  # what was of the dead is gone


@torch.inference_mode()
def test_without_room_for_a_graph_steps_are_taken_one_by_one(
    captured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    network, asked = tame(), [Asked(1, 12), Asked(2, 30)]
    alone = [one.begun(network) for one in asked]
    joint = [begun_on_card(one, network) for one in asked]
    real = step_batch.capture

    def capture(*arguments: Any) -> Any:
        real(*arguments)
        raise torch.OutOfMemoryError

    monkeypatch.setattr(step_batch, "capture", capture)
    for index in range(4):
        found = together([program for program, _ in joint], index)
        for facts_found, (program, _) in zip(found, alone, strict=True):
            assert_alike(facts_found, taken(program.launch, program, index), 2e-5 * 4**index)
    assert captured == [2]


@torch.inference_mode()
def test_only_the_latest_combinations_are_kept(captured: list[int]) -> None:
    network = tame()
    joint = [begun_on_card(Asked(seed, 0), network)[0:2] for seed in range(4)]
    pairs = [(one, other) for one in range(4) for other in range(one)]
    for one, other in pairs:
        together([joint[one][0], joint[other][0]], 1)
    assert captured == []
    assert len(JointGraphs.of_network(network)._kept) == step_batch.MAX_GRAPHS < len(pairs)

"""The step as a fixed program, run eagerly on the CPU, against the plain path fed with the program's own draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    SafelightError,
    StepFinished,
    generate,
    sampling,
)
from engine.cache import KVCache
from engine.decoders.steppers import Sampler, program_of
from engine.kernels.reference_sampling import draw_tokens
from engine.layers.packed import install
from engine.models.diffusion_gemma import DiffusionGemma
from engine.step_graph import StepProgram, Told
from engine.weights.quantize import PRECISIONS
from tests.engine.packing import packable
from tests.engine.tiny import CANVAS, VOCABULARY, network, tokens

SEED, STEPS = 11, 6
CONFIG = GenerationConfig(max_denoising_steps=STEPS, entropy_bound=2.0, confidence_threshold=0.0)
TOLERANCE = 2e-5


def program_on(
    network: DiffusionGemma, prompt: Tensor, forbidden: Tensor | None = None, allowed: Tensor | None = None
) -> StepProgram:
    cache = network.new_cache()
    cache.reserve(len(prompt) + CANVAS)
    if len(prompt):
        network.prefill(prompt, cache)
    program = StepProgram(network, cache, CANVAS, torch.Generator(), forbidden, allowed)
    program.seed(SEED)
    return program


def steps_of(
    program: StepProgram, canvas: Tensor, config: GenerationConfig, pinned: Tensor | None = None
) -> list[Told]:
    program.begin(canvas, pinned, config)
    told = []
    for step in range(config.max_denoising_steps):
        program.launch(step)
        found = program.collect(step)
        told.append(Told(*(part.clone() if isinstance(part, Tensor) else part for part in found)))
    return told


def assert_agree(
    network: DiffusionGemma,
    program: StepProgram,
    canvas: Tensor,
    told: list[Told],
    config: GenerationConfig,
    *,
    scale: object = None,
    choices: Tensor | int = VOCABULARY,
    drawn_before: int = 0,
) -> None:
    """Each step as the plain path takes it from the same canvas, with the same draws."""
    noise = torch.Generator().manual_seed(SEED)
    for _ in range(drawn_before):
        sampling.uniform_tokens((CANVAS,), choices, noise)
    conditioning, previous = None, None
    for step, found in enumerate(told):
        logits = network.denoise(canvas, program.cache, conditioning) / config.temperature(step)
        if callable(scale):
            logits = scale(logits)
        entropy = sampling.token_entropy(logits)
        torch.testing.assert_close(found.entropy, entropy, rtol=0, atol=TOLERANCE * 4**step)
        assert torch.equal(found.argmax, logits.argmax(dim=-1)), step
        assert torch.equal(found.candidates, draw_tokens(logits, SEED, drawn_before + step)), step
        accepted = sampling.accept_mask(found.entropy, config.entropy_bound)
        assert torch.equal(found.accepted, accepted), step
        canvas = sampling.renoise(found.candidates, accepted, sampling.uniform_tokens((CANVAS,), choices, noise))
        assert torch.equal(found.next_canvas, canvas), step
        stable = previous is not None and torch.equal(found.argmax, previous)
        assert found.converged == (stable and bool(entropy.mean() < config.confidence_threshold))
        assert found.finite
        conditioning, previous = logits, found.argmax


@pytest.mark.parametrize("length", [0, 5, 30])
def test_program_agrees_with_the_plain_path(length: int) -> None:
    made = network()
    made.self_conditioning.down_proj.weight.mul_(0.1)  # a random model amplifies rounding too much to compare steps
    program = program_on(made, tokens(length))
    canvas = tokens(CANVAS, seed=3)
    told = steps_of(program, canvas, CONFIG)
    assert_agree(made, program, canvas, told, CONFIG)
    assert program.cache.length == length


def test_a_second_canvas_starts_afresh_and_goes_on_drawing() -> None:
    made = network()
    made.self_conditioning.down_proj.weight.mul_(0.1)
    program = program_on(made, tokens(12))
    first = steps_of(program, tokens(CANVAS, seed=3), CONFIG)
    made.prefill(first[-1].argmax, program.cache)
    canvas = tokens(CANVAS, seed=4)
    assert_agree(made, program, canvas, steps_of(program, canvas, CONFIG), CONFIG, drawn_before=STEPS)


def test_convergence_is_told() -> None:
    made = network()
    made.norm.weight.mul_(200.0)  # logits at the cap: certain, hence stable
    config = CONFIG.replace(confidence_threshold=0.5, entropy_bound=50.0)
    made.self_conditioning.down_proj.weight.zero_()
    program = program_on(made, tokens(6))
    canvas = tokens(CANVAS, seed=3)
    told = steps_of(program, canvas, config)
    assert_agree(made, program, canvas, told, config)
    assert not told[0].converged


def test_allowed_and_pinned_tokens() -> None:
    made = network()
    made.self_conditioning.down_proj.weight.mul_(0.1)
    allowed = torch.tensor([5, 6, 7, 40, 90])
    forbidden = torch.ones(VOCABULARY, dtype=torch.bool)
    forbidden[allowed] = False
    pinned = torch.full((CANVAS,), -1, dtype=torch.int32)
    pinned[2], pinned[7] = 3, 40  # a pin may hold a forbidden token
    canvas = tokens(CANVAS, seed=3)
    canvas[2], canvas[7] = 3, 40

    def scale(logits: Tensor) -> Tensor:
        logits = logits.masked_fill(forbidden, -torch.inf)
        for place in (2, 7):
            logits[place] = -torch.inf
            logits[place, pinned[place]] = 0.0
        return logits

    program = program_on(made, tokens(6), forbidden, allowed)
    told = steps_of(program, canvas, CONFIG, pinned)
    assert_agree(made, program, canvas, told, CONFIG, scale=scale, choices=allowed)
    for found in told:
        assert found.next_canvas[2] == 3
        assert found.next_canvas[7] == 40
        assert set(found.candidates.tolist()) <= {3, *allowed.tolist()}


def test_packed_network() -> None:
    made = packable()
    with torch.device("meta"):
        empty = DiffusionGemma(made.config)
    install(empty, PRECISIONS["int4"], torch.float32)
    from engine.weights.checkpoint import State

    state = State(empty, torch.device("cpu"), torch.float32)
    for name, parameter in made.named_parameters():
        state.put(name, parameter.detach())
    empty.load_state_dict(state.tensors, assign=True)
    empty.requires_grad_(False)
    empty.self_conditioning.down_proj.weight.scales.mul_(0.1)
    program = program_on(empty, tokens(9))
    canvas = tokens(CANVAS, seed=3)
    assert_agree(empty, program, canvas, steps_of(program, canvas, CONFIG), CONFIG)


def test_non_finite_weights_are_told() -> None:
    made = network()
    made.layers[1].mlp.up_proj.weight[0, 0] = float("nan")
    program = program_on(made, tokens(6))
    assert not steps_of(program, tokens(CANVAS), CONFIG)[0].finite


def test_the_facts_of_a_step_survive_the_launch_of_the_next() -> None:
    made = network()
    program = program_on(made, tokens(6))
    program.begin(tokens(CANVAS), None, CONFIG)
    program.launch(0)
    first = program.collect(0)
    kept = first.argmax.clone(), first.entropy.clone()
    program.launch(1)
    assert torch.equal(first.argmax, kept[0])
    assert torch.equal(first.entropy, kept[1])


@dataclass
class OnDevice:
    """A model whose steps are programs, here without a device of their own."""

    network: DiffusionGemma

    def __getattr__(self, name: str) -> object:
        return getattr(self.network, name)

    def step_program(self, cache: KVCache, sampler: Sampler) -> StepProgram:
        return program_of(self.network, cache, sampler)


def run(model: OnDevice, **changes: object) -> list[Event]:
    config = CONFIG.replace(max_new_tokens=3 * CANVAS, eos_token_ids=(), **changes)
    return list(generate(model, tokens(7), config, seed=5))  # type: ignore[arg-type]


def test_generation_by_programs() -> None:
    """Three blocks; each is what the program makes of the committed text before it."""
    made = network()
    events = run(OnDevice(made))
    starts = [event for event in events if isinstance(event, CanvasStarted)]
    commits = [event for event in events if isinstance(event, CanvasCommitted)]
    steps = [event for event in events if isinstance(event, StepFinished)]
    assert (len(starts), len(commits), len(steps)) == (3, 3, 3 * STEPS)
    text = tokens(7)
    for block in range(3):
        cache = made.new_cache()
        made.prefill(text, cache)
        first = next(step for step in steps if step.block_index == block)
        logits = made.denoise(torch.from_numpy(starts[block].canvas).long(), cache) / first.temperature
        np.testing.assert_array_equal(first.argmax_canvas, logits.argmax(dim=-1).numpy())
        np.testing.assert_allclose(first.entropy, sampling.token_entropy(logits).numpy(), atol=1e-4)
        assert first.argmax_canvas.dtype == first.next_canvas.dtype == np.int32
        text = torch.cat([text, torch.from_numpy(commits[block].tokens).long()])
    again = [step for step in run(OnDevice(network())) if isinstance(step, StepFinished)]
    for one, other in zip(steps, again, strict=True):
        np.testing.assert_array_equal(one.candidates, other.candidates)
        np.testing.assert_array_equal(one.next_canvas, other.next_canvas)


@pytest.mark.parametrize("piece", [50, 4096])
def test_top_tokens(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the plain way finds them, over pieces of the vocabulary or the whole; a pinned position is certain."""
    monkeypatch.setattr("engine.step_graph.TOP_PIECE", piece)
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
    with pytest.raises(SafelightError, match="non-finite logits in block 0, step 0"):
        run(OnDevice(made))

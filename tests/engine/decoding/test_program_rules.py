"""The rules of acceptance in the step program, against the plain path fed with the program's own draws."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import GenerationConfig
from engine.decoders import ACCEPTANCE
from engine.decoding import sampling
from engine.decoding.acceptance import Accepted, OfLogits, rule_of
from engine.decoding.performing import complete
from engine.decoding.sampler import Edits, Sampler
from engine.decoding.step_program import NOISE
from engine.decoding.steppers import DeviceStepper, PlainStepper, Step
from engine.kernels.reference_step import draw_tokens
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.decoding.test_step_program import OnDevice, tame
from tests.engine.tiny import CANVAS, VOCABULARY, tokens

CPU = torch.device("cpu")


@dataclass
class Streams:
    """A program's random streams, for the plain path."""

    noise: torch.Generator
    taken: int = 0


@pytest.fixture
def _program_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a sampler draw as the program of its seed; its generator is left to first canvases."""
    streams: dict[torch.Generator, Streams] = {}

    def step(self: Sampler, logits: Tensor, canvas: Tensor, kept: Tensor) -> tuple[OfLogits, Accepted, Any]:
        seed = self.generator.initial_seed()
        own = streams.setdefault(self.generator, Streams(torch.Generator().manual_seed(seed ^ NOISE)))
        found = OfLogits(logits, draw_tokens(logits, seed, own.taken))
        own.taken += 1
        accepted = rule_of(self.config)(found, canvas, kept)
        choices = self.vocab_size if self.instead is None else self.instead
        noise = sampling.uniform_tokens((self.length,), choices, own.noise)
        return found, accepted, sampling.renoise(accepted.candidates, accepted.mask, noise)

    monkeypatch.setattr(Sampler, "step", step)


@dataclass
class Pair:
    """The steppers of one run on both paths, and what the run has shown."""

    network: DiffusionGemma
    config: GenerationConfig
    seed: int
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.prompt = tokens(1 + self.seed % 20, self.seed)
        self.model: Any = OnDevice(self.network)
        self.device, self.plain = self._made(True), self._made(False)

    def _made(self, is_program: bool) -> DeviceStepper | PlainStepper:
        cache = self.network.new_cache()
        cache.reserve(len(self.prompt) + 3 * CANVAS)
        self.network.prefill(self.prompt, cache)
        sampler = Sampler.from_settings(self.network.config, self.config, CPU, self.seed)
        return DeviceStepper(self.model, cache, sampler) if is_program else PlainStepper(torch.float32, cache, sampler)

    def begin(self, block: int) -> None:
        for stepper in (self.device, self.plain):
            complete(self.model, stepper.begin(block, stepper.sampler.first_canvas(block)))

    def change(self, config: GenerationConfig, block: int, edits: Edits) -> None:
        for stepper in (self.device, self.plain):
            stepper.change(stepper.sampler.changed(config, block), edits)

    def step(self, index: int, ahead: bool) -> Step:
        found, want = (complete(self.model, stepper.step(index, ahead)) for stepper in (self.device, self.plain))
        for name in ("argmax", "candidates", "accepted", "next_canvas"):
            np.testing.assert_array_equal(getattr(found, name), getattr(want, name), f"{name}, step {index}")
        np.testing.assert_allclose(found.entropy, want.entropy, atol=2e-5 * 4**index)
        assert found.converged == want.converged
        if not ahead:
            assert torch.equal(self.device.program.kept, self.plain.kept)
        return found

    def finish(self, step: Step) -> None:
        """Predicts, which leaves nothing behind, and commits the canvas."""
        canvas = torch.from_numpy(step.next_canvas).long()
        one, other = (complete(self.model, stepper.predict(canvas, 3)) for stepper in (self.device, self.plain))
        torch.testing.assert_close(one, other, atol=1e-4, rtol=0)
        for stepper in (self.device, self.plain):
            complete(self.model, stepper.commit(torch.from_numpy(step.argmax).long()))


def settings(choose: random.Random, acceptance: str) -> GenerationConfig:
    return GenerationConfig(
        acceptance=acceptance,
        max_denoising_steps=choose.randint(1, 6),
        entropy_bound=choose.choice([0.1, 1.0, 8.0]),
        accept_probability=choose.choice([0.05, 0.3, 0.9]),
        stability_threshold=choose.randrange(3),
        confidence_threshold=choose.choice([0.0, 0.5, 3.0]),
        pinned=tuple(
            (place, choose.randrange(VOCABULARY)) for place in choose.sample(range(CANVAS), choose.choice([0, 2]))
        ),
        banned_tokens=choose.choice([(), (), (3, 4, 5)]),
    )


def taken(seed: int, acceptance: str) -> set[str]:
    """Takes the steps of a run of two canvases on both paths, with changes between some of them."""
    choose = random.Random(f"{acceptance} {seed}")
    network, seen = tame(), set[str]()
    network.norm.weight.mul_(choose.choice([1.0, 6.0, 40.0]))
    pair = Pair(network, settings(choose, acceptance), seed)
    for block in range(2):
        pair.begin(block)
        changes = [index > 0 and choose.random() < 0.2 for index in range(6)]
        for index in range(6):
            if changes[index]:
                config = settings(choose, choose.choice([acceptance, *ACCEPTANCE]))
                config = config.replace(max_denoising_steps=choose.randint(index + 1, 6))
                free = [place for place in range(CANVAS) if place not in dict(config.pinned)]
                edits = [(place, choose.randrange(6, VOCABULARY)) for place in choose.sample(free, 2)]
                pair.change(config, block, edits)
                seen.add("changed")
            is_last = index + 1 >= pair.device.sampler.config.max_denoising_steps
            step = pair.step(index, ahead=not (is_last or changes[index + 1]))
            if step.converged or is_last:
                break
        seen.add("converged" if step.converged else "step cap")
        seen |= {"kept"} if bool(pair.device.program.kept.any()) else set()
        pair.finish(step)
    return seen


@pytest.mark.usefixtures("_program_draws")
@pytest.mark.parametrize(
    "seeds", [range(7), *(pytest.param(range(first, first + 100), marks=pytest.mark.slow) for first in (7, 107, 207))]
)
@pytest.mark.parametrize("acceptance", ACCEPTANCE)
@torch.inference_mode()
def test_the_program_agrees_with_the_plain_path(acceptance: str, seeds: range) -> None:
    """Pins, bans, edits, shares and settings change between the steps, and so does the rule."""
    seen = set[str]().union(*(taken(seed, acceptance) for seed in seeds))
    assert seen == {"changed", "converged", "step cap", "kept"}

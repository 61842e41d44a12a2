"""The section of whole steps, computed by two paths that must agree.

On a GPU: replayed from a graph and run eagerly, bit for bit. Everywhere: as a program, and by the plain network, whose
rounding differs. Also times the embedded model's steps, which every machine can take.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine import kernels
from engine.benchmarks.generation import measure
from engine.benchmarks.measuring import random_network
from engine.catalog import MINI
from engine.checks.oracle import draws
from engine.config import GenerationConfig
from engine.decoding import sampling
from engine.decoding.performing import complete
from engine.decoding.prefill import commit
from engine.decoding.protocols import LaunchStep
from engine.decoding.step_batch import launch_together
from engine.decoding.step_program import StepFacts, StepProgram
from engine.doctor.kernels import two_layers
from engine.doctor.reporter import Found, Reporter
from engine.layers.kv_cache import KVCache
from engine.memory.device import Placement
from engine.models.model import load_model
from engine.quant import PRECISIONS

STEPS, TEXT = 4, 1500  # of a canvas; tokens before it
ROOM = 4  # canvases that a cache has room for after the text
SEED = 11
SETTINGS = GenerationConfig(max_denoising_steps=STEPS, entropy_bound=2.0, confidence_threshold=0.0)
APART = 0.1  # nats by which entropies may differ on average from the plain network's


def run(reporter: Reporter, device: str) -> None:
    """Runs the same canvases on both paths."""
    place = torch.device(device)
    if place.type == "cpu":
        torch.set_num_threads(1)  # on tiny shapes a second thread only waits
    with torch.inference_mode():
        pair = StepPair(place)
        if pair.has_graphs:
            reporter.check("a step, graph against eager", lambda: pair.agree(1))
            reporter.check("a step of two runs, graph against eager", lambda: pair.agree(2))
        reporter.check("a first step against the plain network", pair.plain)
    reporter.check("steps of the embedded model", lambda: _embedded(reporter))


class StepPair:
    """A random network, and steps to take on it by two paths."""

    def __init__(self, device: torch.device) -> None:
        config = two_layers(device)
        self.network = random_network(config, PRECISIONS["int4"], Placement(device, torch.bfloat16, "asked for"))
        self.has_graphs = device.type == "cuda" and kernels.why_plain(device) is None
        random = draws(device, 5)
        for parameter in self.network.parameters():
            if parameter.dim() == 1:  # norm weights, equal until here: using the wrong one would not be detected
                parameter.mul_(torch.rand(parameter.shape, generator=random, device=device).add_(0.5).bfloat16())

    def agree(self, runs: int) -> Found:
        """Checks that graphs give the same bits as eager steps, of so many runs in one pass."""
        eager, replayed = self.steps(runs, False), self.steps(runs, True)
        for number, (one, other) in enumerate(zip(eager, replayed, strict=True)):
            if not (one.finite and other.finite):
                return False, "logits are not finite"
            for name in ("argmax", "candidates", "accepted", "next_canvas", "entropy"):
                if not torch.equal(getattr(one, name), getattr(other, name)):
                    return False, f"step {number}: {name} differ"
        return True, f"alike in {len(eager)} steps"

    def steps(self, runs: int, captures: bool) -> list[StepFacts]:
        """Takes a canvas's steps of so many runs; the first run commits another canvas in its first step."""
        held = [self.program(captures, SEED + number) for number in range(runs)]
        programs = [program for program, _cache in held]  # which do not keep their caches alive
        for program in programs:
            program.begin(self.canvas(1), None, SETTINGS, self.canvas(2) if program is programs[0] else None)
        return self.launched(programs, captures)

    def launched(self, programs: Sequence[StepProgram], captures: bool) -> list[StepFacts]:
        """Takes the steps of canvases that have begun, in one pass each."""
        steps = list[StepFacts]()
        for step in range(STEPS):
            launch_together([LaunchStep(program, step) for program in programs], captures=captures)
            for program in programs if step == 0 else ():
                program.cache.advance(program.length * program.commits)
            for facts in (program.collect(step) for program in programs):
                steps.append(StepFacts._make(part.clone() if isinstance(part, Tensor) else part for part in facts))
        return steps

    def plain(self) -> Found:
        """Compares entropies of a first step with the plain network's, whose rounding differs."""
        program, cache = self.program(self.has_graphs, SEED)
        program.begin(self.canvas(1), None, SETTINGS)
        program.launch(0)
        facts = program.collect(0)
        logits = self.network.denoise(self.canvas(1), cache) / GenerationConfig().temperature(0)
        entropy = sampling.token_entropy(logits)
        gap = float((facts.entropy.to(entropy.device) - entropy).abs().mean())
        return bool(facts.finite) and gap < APART, f"{gap:.3f} nats apart on average"

    def program(self, captures: bool, seed: int) -> tuple[StepProgram, KVCache]:
        """Returns a program behind a text on its own cache."""
        network, config = self.network, self.network.config
        cache = network.new_cache()
        cache.reserve(TEXT + ROOM * config.canvas_length)
        complete(network, commit(torch.arange(TEXT) % config.vocab_size, cache))
        program = StepProgram(network, cache, config.canvas_length)
        program.captures = captures
        program.seed(seed)
        return program, cache

    def canvas(self, seed: int) -> Tensor:
        device, config = self.network.device, self.network.config
        return torch.randint(config.vocab_size, (config.canvas_length,), generator=draws(device, seed), device=device)


def _embedded(reporter: Reporter) -> Found:
    """Measures Safelight Mini as ``safelight bench`` does."""
    median = measure(load_model(MINI, device="cpu"), runs=2)["step_ms"]["median"]
    reporter.fact("embedded model's step, median", round(median, 2), "ms")
    return median > 0, f"{median:.1f} ms"

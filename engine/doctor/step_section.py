"""The section of whole steps, computed by two paths that must agree.

On a GPU: replayed from a graph and run eagerly, bit for bit, on four layers of the real shape. On a CPU: through the
fused kernels in the interpreter and on the plain path, on a tiny network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from engine import kernels
from engine.benchmarks.random_network import random_network
from engine.checks.operands import draws
from engine.config import GenerationConfig, ModelConfig
from engine.decoding import sampling
from engine.decoding.performing import complete
from engine.decoding.prefill import commit
from engine.decoding.protocols import LaunchStep
from engine.decoding.step_batch import launch_together
from engine.decoding.step_program import StepFacts, StepProgram
from engine.doctor import interpreter
from engine.doctor.reporter import Found, Reporter
from engine.doctor.shapes import real, tiny
from engine.layers.kv_cache import KVCache
from engine.memory.device import Placement
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import PRECISIONS

LAYERS = (0, 5, 1, 11)  # of the real shape: sliding and full ones in turn
VOCABULARY = 32_768
STEPS, TINY_STEPS = 6, 3
ROOM = 4  # canvases that a cache has room for after the context
SEED = 11
AGAIN = 20  # repeated runs of the same canvas, on a card
BITS, ROUNDING = 0.0, 1e-4  # nats that entropies may differ by
APART = 0.05  # nats by which a run's entropies may differ, on average, from those of the run in one pass with another


def run(reporter: Reporter, device: str, quick: bool) -> None:
    """Runs the same canvases on both paths."""
    place = torch.device(device)
    if why := kernels.why_plain(place) if place.type == "cuda" else interpreter.why_not():
        reporter.left_out("steps", why)
        return
    with torch.inference_mode():
        if place.type == "cuda":
            shape = real()
            config = replace(shape, layers=tuple(shape.layers[index] for index in LAYERS), vocab_size=VOCABULARY)
            pairs = _Comparison(_network(config, place, torch.bfloat16), 1500, STEPS, BITS)
        else:
            torch.set_num_threads(1)
            pairs = _Comparison(_network(tiny(), place, torch.float32), 30, TINY_STEPS, ROUNDING)
        how = "graph against eager" if place.type == "cuda" else "fused kernels against the plain path"
        reporter.check(f"steps, {how}", pairs.alike)
        reporter.check(f"a step that commits, {how}", partial(pairs.alike, commits=True))
        reporter.check(f"a step of two runs, {how}", pairs.joint)
        if place.type == "cuda":
            reporter.check("a step of two runs against each alone", pairs.apart)
            reporter.check("after the cache's buffers moved", partial(pairs.alike, canvases=3 * ROOM))
            reporter.check("canvases of two lengths in turn", pairs.lengths)
            if not quick:
                reporter.check(f"the same canvas {AGAIN} times", pairs.repeated)
            reporter.check("a first step against the plain network", pairs.plain)


def _network(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> DiffusionGemma:
    network = random_network(config, PRECISIONS["int4"], Placement(device, dtype, "asked for"))
    random = draws(device, 5)
    for parameter in network.parameters():
        if parameter.dim() == 1:  # norm weights, equal until here: using the wrong one would not be detected
            parameter.mul_(torch.rand(parameter.shape, generator=random, device=device).add_(0.5).to(dtype))
    return network


@dataclass(frozen=True)
class _Comparison:
    """A network, and the steps to compute on two paths."""

    network: DiffusionGemma
    length: int  # of the context
    steps: int  # of a canvas
    tolerance: float  # nats that entropies may differ by between the two paths

    def alike(self, commits: bool = False, canvases: int = ROOM) -> Found:
        """Checks that both paths agree, even after the cache was reallocated for more ``canvases``."""
        return self.agreed(*(self.run(is_fast, commits, canvases) for is_fast in (False, True)))

    def agreed(self, plain: list[StepFacts], fast: list[StepFacts]) -> Found:
        if not all(step.finite for step in plain + fast):
            return False, "logits are not finite"
        differing = _first_difference(plain, fast, self.tolerance)
        return differing is None, differing or f"alike in {len(fast)} steps"

    def run(self, is_fast: bool, commits: bool, canvases: int) -> list[StepFacts]:
        """Runs the steps of one canvas, and of another if the cache is to be reallocated in between."""
        program, cache = self.program(is_fast)
        found = self.steps_of(program, self.canvas(), self.canvas(seed=2) if commits else None)
        if canvases > ROOM:
            cache.reserve(self.length + canvases * program.length)
            found += self.steps_of(program, self.canvas(seed=3), None)
        return found

    def joint(self) -> Found:
        """Checks that both paths agree on steps of two runs in one pass.

        On a CPU the plain path is each run by itself. On a card both are joint: runs by themselves round differently.
        """
        on_card = self.network.device.type == "cuda"
        return self.agreed(self.steps_of_two(False, together=on_card), self.steps_of_two(True, together=True))

    def apart(self) -> Found:
        """Compares entropies of a first step of two runs in one pass with those of each by itself."""
        pairs = (self.steps_of_two(False, together) for together in (False, True))
        gaps = [(one.entropy - other.entropy).abs().mean() for one, other in zip(*pairs, strict=True)][:2]
        gap = float(torch.stack(gaps).max())
        return gap < APART, f"{gap:.3f} nats apart on average"

    def steps_of_two(self, is_fast: bool, together: bool) -> list[StepFacts]:
        """Runs steps of two runs in turn: the first commits a canvas, the second has other settings."""
        held = [self.program(is_fast) for _ in range(2)]  # with their caches, which programs do not keep alive
        programs = [program for program, _ in held]
        programs[1].seed(SEED + 1)
        settings = [self.settings(bound) for bound in (2.0, 1.0)]
        for program, config, committed in zip(programs, settings, (self.canvas(seed=2), None), strict=True):
            program.begin(self.canvas(seed=program.commits + 4), None, config, committed)
        found = []
        for step in range(self.steps):
            launches = [LaunchStep(program, step) for program in programs]
            for group in [launches] if together else [[launch] for launch in launches]:
                launch_together(group, captures=is_fast)
            if step == 0:
                programs[0].cache.advance(programs[0].length)
            found += [_copied(program.collect(step)) for program in programs]
        return found

    def lengths(self) -> Found:
        """Checks that both paths agree on canvases of two lengths in turn, whose graphs share their memory."""
        return self.agreed(*(self.steps_of_lengths(is_fast) for is_fast in (False, True)))

    def steps_of_lengths(self, is_fast: bool) -> list[StepFacts]:
        """Runs the steps of a canvas and of a shorter one on the same cache, twice in turn."""
        program, cache = self.program(is_fast)
        both = program, self.program_on(cache, program.length // 2, is_fast)
        return [step for one in both * 2 for step in self.steps_of(one, self.canvas()[: one.length], None)]

    def repeated(self) -> Found:
        """Checks that replays of one canvas give the same bits."""
        program, _cache = self.program(True)
        first = self.steps_of(program, self.canvas(), None)
        for turn in range(1, AGAIN):
            program.seed(SEED)
            if differing := _first_difference(first, self.steps_of(program, self.canvas(), None), BITS):
                return False, f"run {turn}: {differing}"
        return True, "the same bits"

    def plain(self) -> Found:
        """Compares entropies of a first step with the plain network's, whose rounding differs."""
        program, cache = self.program(True)
        first = self.steps_of(program, self.canvas(), None)[0]
        logits = self.network.denoise(self.canvas(), cache) / GenerationConfig().temperature(0)
        entropy = sampling.token_entropy(logits)
        gap = float((first.entropy.to(entropy.device) - entropy).abs().mean())
        return gap < 0.1, f"{gap:.3f} nats apart on average"

    def program(self, is_fast: bool) -> tuple[StepProgram, KVCache]:
        """Returns a program on its own cache; if fast, captured, or with fused kernels on a CPU."""
        network, config = self.network, self.network.config
        cache = network.new_cache()
        cache.reserve(self.length + ROOM * config.canvas_length)
        complete(network, commit(torch.arange(self.length) % config.vocab_size, cache))
        return self.program_on(cache, config.canvas_length, is_fast), cache

    def program_on(self, cache: KVCache, length: int, is_fast: bool) -> StepProgram:
        network = self.network
        program = StepProgram(network, cache, length)
        if network.device.type == "cuda":
            program.captures = is_fast
        elif is_fast:
            from engine.models.diffusion_gemma.fused import FusedLayers  # needs Triton

            program.fused = FusedLayers(network)
        program.seed(SEED)
        return program

    def steps_of(self, program: StepProgram, canvas: Tensor, committed: Tensor | None) -> list[StepFacts]:
        program.begin(canvas, None, self.settings(), committed)
        found = []
        for step in range(self.steps):
            program.launch(step)
            if step == 0 and committed is not None:
                program.cache.advance(len(committed))
            found.append(_copied(program.collect(step)))
        return found

    def settings(self, entropy_bound: float = 2.0) -> GenerationConfig:
        return GenerationConfig(max_denoising_steps=self.steps, entropy_bound=entropy_bound, confidence_threshold=0.0)

    def canvas(self, seed: int = 1) -> Tensor:
        device, config = self.network.device, self.network.config
        return torch.randint(config.vocab_size, (config.canvas_length,), generator=draws(device, seed), device=device)


def _copied(facts: StepFacts) -> StepFacts:
    return StepFacts._make(part.clone() if isinstance(part, Tensor) else part for part in facts)


def _first_difference(one: list[StepFacts], other: list[StepFacts], tolerance: float) -> str | None:
    """Returns the first step and field in which two runs differ."""
    for step, (a, b) in enumerate(zip(one, other, strict=True)):
        for name in ("argmax", "candidates", "accepted", "next_canvas"):
            if not torch.equal(getattr(a, name), getattr(b, name)):
                return f"step {step}: {name} differ"
        gap = float((a.entropy - b.entropy).abs().max())
        if not gap <= tolerance:
            return f"step {step}: entropies differ by {gap:.2g} nats"
    return None

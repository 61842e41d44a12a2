"""Times the steps of several programs in one pass, against a step of one. Prints nothing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.benchmarks.random_network import Report
from engine.config import GenerationConfig
from engine.decoding.protocols import LaunchStep
from engine.decoding.step_batch import launch_together
from engine.decoding.step_program import StepProgram
from engine.errors import SafelightError
from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma

WARM_UP = 3  # uncounted steps for each number of programs, in which a pass is captured
NUMBERS = (1, 2, 4)  # programs at once


@dataclass(frozen=True)
class JointStepTime:
    """The time of a pass over this number of programs."""

    runs: int
    step_ms_median: float  # from launch until all results are on the host
    ratio: float  # steps a second, divided by those of one program alone


def joint_step_times(programs: Sequence[StepProgram], steps: int, report: Report) -> list[JointStepTime]:
    """Times ``steps`` steps, none of which commits, of one, two, four and all programs at once.

    Raises:
        SafelightError: a step's logits are not finite.
    """
    counts = sorted({count for count in NUMBERS if count < len(programs)} | {len(programs)})
    found: list[JointStepTime] = []
    warm_up = WARM_UP if programs[0].captures else 0  # on a CPU nothing is captured, and a step takes seconds
    config = GenerationConfig(max_denoising_steps=warm_up + steps, confidence_threshold=0.0)
    for count in counts:
        together = programs[:count]
        for program in together:
            program.begin(noise(program), None, config)
        times = [_step_ms(together, step) for step in range(warm_up + steps)][warm_up:]
        median = statistics.median(times)
        first = found[0].step_ms_median if found else median
        found.append(JointStepTime(count, median, count * first / median))
        report(f"took steps of {count} runs at once, {median:.0f} ms each")
    return found


def copied(network: DiffusionGemma, cache: KVCache, tokens: int) -> KVCache:
    """Returns another cache with a copy of the text that was read so far, and with room for ``tokens``."""
    other = network.new_cache()
    other.reserve(tokens)
    while other.length < cache.length:
        count = min(other.piece, cache.length - other.length)
        other.spans(0, count)
        other.advance(count)
    for index in range(len(network.layers)):
        for mine, theirs in zip(other.buffers(index), cache.buffers(index), strict=True):
            mine.copy_(theirs)
    return other


def _step_ms(programs: Sequence[StepProgram], step: int) -> float:
    started = time.perf_counter()
    launch_together([LaunchStep(program, step) for program in programs])
    results = [program.collect(step) for program in programs]
    ms = 1e3 * (time.perf_counter() - started)
    if not all(result.finite for result in results):
        raise SafelightError("a step of several runs gave logits that are not numbers: a kernel is wrong")
    return ms


def noise(program: StepProgram) -> Tensor:
    """Returns a random canvas, shape (length,)."""
    return torch.randint(program.network.config.vocab_size, (program.length,), device=program.network.device)

"""Measures a denoising step of a model's shape with random packed weights. Prints nothing.

No checkpoint is needed: codes and scales are drawn at random on the device. The kernels of a step are compared with
their oracles, in a layer of each kind. Then steps are forced, without early stop, as vLLM's published figures are
made: whole steps as they run in use (on CUDA one graph each), first steps that also commit the canvas before, and each
part of a step: on CUDA by itself, on a CPU in the steps.
"""

from __future__ import annotations

import statistics
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from engine import kernels
from engine.benchmarks.generation import device_name, peak_memory_mb
from engine.benchmarks.random_network import Tell, random_network, silent
from engine.benchmarks.step_parts import noise, time_parts, timed, watching
from engine.checks.network_checks import network_checks
from engine.checks.oracle import judge
from engine.config import GenerationConfig, ModelConfig
from engine.decoding.step_program import StepProgram
from engine.errors import SafelightError
from engine.memory.device import Placement
from engine.memory.plan import device_memory
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import BF16, Activations, Precision

STEPS = 16  # forced, a canvas
ROUNDS = 5
COPY_BYTES = 1 << 30  # of the copy that measures memory bandwidth, on a GPU


@dataclass(frozen=True)
class ShapeResult:
    """What was measured. Times in ms a step, bytes decimal."""

    shape: str
    device: str
    precision: dict[str, str | None]
    int8: list[str]  # products whose activations were rounded to int8
    context: int  # tokens before the canvas
    canvas: int
    graph: bool  # whether steps were replayed from a CUDA graph
    plain_reason: str | None  # why kernels did not run
    oracle_error: dict[str, float]  # largest relative difference of a kernel from its oracle
    step_ms_median: float
    step_ms_p95: float
    commit_and_step_ms_median: float  # of a canvas's first step that commits the canvas before it in the same pass
    parts_ms: dict[str, float]  # one by one, on a CPU in the steps themselves; "gaps" is what a step takes beyond them
    weight_bytes: int  # read once a step
    bandwidth_gb_s: float  # of a copy on this device, bytes read and written
    read_gb_s: float  # weight bytes over step time
    floor_share: float  # weight bytes at the copy's bandwidth, over step time
    tokens_per_second: float  # at STEPS steps a canvas
    peak_memory_mb: float | None
    peak_memory_note: str
    plan_bytes: int | None  # what the whole was planned to take
    peak_of_plan: float | None  # the peak over that; None where one of them is not known, or not of the same things
    device_memory_mb: float | None  # taken on a GPU by all programs, with contexts and what allocators keep
    compared: dict[str, Any] | None = field(default=None)

    def as_dict(self) -> dict[str, Any]:
        """The result as the command line prints it with ``--json``."""
        return asdict(self)


def measure_shape(
    name: str,
    config: ModelConfig,
    precision: Precision,
    placement: Placement,
    context: int = 1024,
    steps: int = STEPS,
    rounds: int | None = None,
    plan_bytes: int | None = None,
    tell: Tell = silent,
    reached: Tell = silent,
    activations: Activations = BF16,
) -> ShapeResult:
    """Build a shape, check it against the oracle and time its denoising steps.

    Args:
        context: tokens in the cache before the canvas.
        steps: forced steps a canvas. rounds: canvases measured, after one that warms up; None takes 5, and on a CPU one
            alone.
        plan_bytes: what the whole was planned to take, for the result.
        tell: called with a few words on what has been done.
        reached: called with the name of a phase when it has ended: "building", "prefill", "steps".
        activations: which products round their activations to int8.

    Raises:
        SafelightError: the context does not fit the model, the device is too small, a kernel is wrong, or a step's
            logits are not finite.
    """
    if not 0 <= context <= config.max_position_embeddings - config.canvas_length:
        most = config.max_position_embeddings - config.canvas_length
        raise SafelightError(f"the context must be between 0 and {most} tokens for this shape, not {context}")
    bandwidth = copy_bandwidth(placement.device)
    network = random_network(config, precision, placement, 0, tell, activations)
    reached("building")
    with torch.inference_mode():
        errors = check_layers(network, activations)
        tell("checked its kernels against the oracle")
        _forget_peak(placement.device)
        cache = network.new_cache()
        cache.reserve(context + 2 * config.canvas_length)
        for start in range(0, context, cache.piece):
            network.prefill(torch.arange(start, min(start + cache.piece, context)) % config.vocab_size, cache)
        tell(f"prefilled {context} tokens")
        reached("prefill")
        program = StepProgram(network, cache, config.canvas_length, activations=activations)
        forced = GenerationConfig(max_denoising_steps=steps, confidence_threshold=0.0)
        warms_up = rounds is not None or placement.device.type != "cpu"
        turns = range(1 - warms_up, 1 + (rounds or (ROUNDS if warms_up else 1)))  # 0 warms up
        captured = _has_graphs(placement.device)
        watched: dict[str, float] = {}
        with nullcontext() if captured else watching(program, watched):
            times = _time_steps(program, forced, turns, tell)
        first_times = _time_first_steps(program, forced, turns)
        tell("took a first step that commits")
        reached("steps")
        count = len(turns) * steps
        parts = time_parts(program, forced) if captured else {part: ms / count for part, ms in watched.items()}
    median = statistics.median(times)
    weight_bytes = sum(t.nbytes for t in [*network.parameters(), *network.buffers()])
    memory, note = peak_memory_mb(placement.device)
    taken = device_memory(placement.device)
    return ShapeResult(
        shape=name,
        device=device_name(placement.device),
        precision=precision.as_dict(),
        int8=activations.names,
        context=context,
        canvas=config.canvas_length,
        graph=bool(program.graphs),
        plain_reason=kernels.why_plain(placement.device),
        oracle_error=errors,
        step_ms_median=median,
        step_ms_p95=sorted(times)[int(0.95 * (len(times) - 1))],
        commit_and_step_ms_median=statistics.median(first_times),
        parts_ms={**parts, "gaps": median - sum(parts.values())},
        weight_bytes=weight_bytes,
        bandwidth_gb_s=bandwidth / 1e9,
        read_gb_s=weight_bytes / median / 1e6,
        floor_share=weight_bytes / bandwidth / (median / 1e3),
        tokens_per_second=config.canvas_length / (STEPS * median / 1e3),
        peak_memory_mb=memory,
        peak_memory_note=note,
        plan_bytes=plan_bytes,
        peak_of_plan=1e6 * memory / plan_bytes if memory and plan_bytes and placement.device.type == "cpu" else None,
        device_memory_mb=None if taken is None else taken[0] / 1e6,
    )


def check_layers(network: DiffusionGemma, activations: Activations = BF16) -> dict[str, float]:
    """Every kernel of a step in the first sliding and the first full layer, and the vocabulary stage, on random tokens.

    Args:
        activations: which products of the vocabulary stage round to int8; the linear layers know themselves.

    Returns:
        The largest relative error of each kernel against its oracle in fp32.

    Raises:
        SafelightError: one of them is off by more than the number type's rounding allows.
    """
    errors: dict[str, float] = {}
    for check in network_checks(network, activations):
        verdict = judge(check.make(), repeats=1, with_mixups=network.device.type == "cuda")
        if not verdict.ok:
            raise SafelightError(f"the {check.kernel} kernel is wrong on this device: {verdict.said} ({check.where})")
        errors[check.kernel] = max(errors.get(check.kernel, 0.0), verdict.error)
    return errors


def copy_bandwidth(device: torch.device) -> float:
    """Bytes a second, read and written, of a large copy on the device."""
    size = COPY_BYTES if device.type == "cuda" else COPY_BYTES // 16
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / (statistics.median(timed(device, lambda: target.copy_(source), 5)) / 1e3)


def _forget_peak(device: torch.device) -> None:
    """What copying, building and the oracles took is no part of a run's peak."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def _time_steps(program: StepProgram, config: GenerationConfig, turns: range, tell: Tell) -> list[float]:
    """Milliseconds of every step, from launch to its facts being on the host. Turn 0 is not counted."""
    times: list[float] = []
    program.seed(0)
    for turn in turns:
        program.begin(noise(program), None, config)
        for step in range(config.max_denoising_steps):
            ms = _step_ms(program, step)
            if turn:
                times.append(ms)
            tell(f"took step {step + 1} of {config.max_denoising_steps}, canvas {turn} of {turns[-1]}, {ms:.0f} ms")
    return times


def _time_first_steps(program: StepProgram, config: GenerationConfig, turns: range) -> list[float]:
    """Milliseconds of a first step that commits a canvas. The cache is never advanced: all see the same context."""
    times = []
    for turn in turns:
        program.begin(noise(program), None, config, committed=noise(program))
        ms = _step_ms(program, 0)
        if turn:
            times.append(ms)
    return times


def _step_ms(program: StepProgram, step: int) -> float:
    started = time.perf_counter()
    program.launch(step)
    told = program.collect(step)
    ms = 1e3 * (time.perf_counter() - started)
    if not told.finite:
        raise SafelightError(f"a step gave logits that are no numbers on {program.network.device}: a kernel is wrong")
    return ms


def _has_graphs(device: torch.device) -> bool:
    return device.type == "cuda"

"""Measures a denoising step of a model's shape with random packed weights. Prints nothing.

No checkpoint is needed: codes and scales are drawn at random on the device. The kernels of a step are compared with
their oracles, in a layer of each kind. Then steps are forced, without early stop, as in vLLM's published figures:
whole steps as in use (on CUDA one graph each), first steps that also commit the canvas before, steps of several runs in
one pass, and each part of a step alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from engine import kernels
from engine.benchmarks.measuring import (
    Report,
    copy_bandwidth,
    device_name,
    peak_memory_mb,
    percentile_95,
    random_network,
    timed,
    wait,
)
from engine.checks.network_checks import network_checks
from engine.checks.oracle import judge
from engine.config import GenerationConfig, ModelConfig
from engine.decoding.protocols import LaunchStep
from engine.decoding.step_batch import launch_together
from engine.decoding.step_program import CAPTURE_ERRORS, StepProgram
from engine.errors import SafelightError
from engine.layers.attention import Attention
from engine.layers.kv_cache import KVCache
from engine.layers.mlp import GatedMLP
from engine.memory.device import Placement
from engine.memory.plan import device_memory
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import Precision

STEPS = 16  # forced steps of a canvas
ROUNDS = 5  # canvases on a card, after one that warms up; a processor takes one
WARM_UP = 3  # uncounted steps of several runs, in which a pass is captured


def measure_shape(
    name: str,
    config: ModelConfig,
    precision: Precision,
    placement: Placement,
    context: int = 1024,
    steps: int = STEPS,
    plan_bytes: int | None = None,
    report: Report = lambda _: None,
    parallel: int = 1,
) -> dict[str, Any]:
    """Builds a shape, checks it against the oracle and times its denoising steps.

    Args:
        context: tokens in the cache before the canvas.
        steps: forced steps of a canvas.
        plan_bytes: planned memory of the whole, for the result.
        report: called with a few words after each part of the work.
        parallel: runs whose steps are also taken in one pass, each on its own cache.

    Returns:
        The record that ``safelight bench --json`` prints. Times in ms per step, bytes decimal.

    Raises:
        SafelightError: the context does not fit the model, the device is too small, a kernel is wrong, or a step's
            logits are not finite.
    """
    device, canvas = placement.device, config.canvas_length
    most = config.max_position_embeddings - canvas
    if not 0 <= context <= most:
        raise SafelightError(f"the context must be between 0 and {most} tokens for this shape, not {context}")
    bandwidth = copy_bandwidth(device)
    network = random_network(config, precision, placement, 0, report)
    with torch.inference_mode():
        errors = check_layers(network)
        report("checked its kernels against the oracle")
        if device.type == "cuda":  # copying, building and the oracles do not count
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        cache, prefill_ms = _prefilled(network, context)
        report(f"prefilled {context} tokens")
        caches = [cache, *(_prefilled(network, context)[0] for _ in range(parallel - 1))]
        programs = [StepProgram(network, each, canvas) for each in caches]
        forced = GenerationConfig(max_denoising_steps=steps, confidence_threshold=0.0)
        times, first_times = _time_steps(programs[0], forced, report)
        together = _time_together(programs, steps, report) if parallel > 1 else []
        memory, note = peak_memory_mb(device)
        taken = device_memory(device)
        parts = _time_parts(programs[0], forced)
    median = statistics.median(times)
    weight_bytes = sum(tensor.nbytes for tensor in [*network.parameters(), *network.buffers()])
    return {
        "shape": name,
        "device": device_name(device),
        "precision": precision.as_dict(),
        "context": context,
        "canvas": canvas,
        "threads": 0 if device.type == "cuda" else torch.get_num_threads(),
        "graph": bool(programs[0].graphs),  # steps were replayed from a CUDA graph
        "plain_reason": kernels.why_plain(device),  # why kernels did not run
        "oracle_error": errors,
        "prefill_ms": prefill_ms,  # of the context; on a GPU the second run
        "step_ms_median": median,
        "step_ms_p95": percentile_95(times),
        "commit_and_step_ms_median": statistics.median(first_times),  # a first step, with the canvas before it
        "parts_ms": {**parts, "gaps": median - sum(parts.values())},  # run alone; gaps: the rest of a step
        "weight_bytes": weight_bytes,  # read in a step
        "bandwidth_gb_s": bandwidth / 1e9,  # of a copy on this device, bytes read and written
        "read_gb_s": weight_bytes / median / 1e6,
        "floor_share": weight_bytes / bandwidth / (median / 1e3),
        "tokens_per_second": canvas / (STEPS * median / 1e3),
        "peak_memory_mb": memory,
        "peak_memory_note": note,
        "plan_bytes": plan_bytes,
        "peak_of_plan": 1e6 * memory / plan_bytes if plan_bytes and device.type == "cpu" else None,
        "device_memory_mb": None if taken is None else taken[0] / 1e6,  # by all programs, with what allocators keep
        "together": together,
        "compared": None,
    }


def check_layers(network: DiffusionGemma) -> dict[str, float]:
    """Checks the kernels of a step in the first sliding and the first full layer, and the vocabulary stage.

    Returns:
        The largest relative error of each kernel against its oracle in fp32.

    Raises:
        SafelightError: one of them is off by more than the number type's rounding allows.
    """
    errors: dict[str, float] = {}
    for check in network_checks(network):
        verdict = judge(check.make(), repeats=1, with_mixups=network.device.type == "cuda")
        if not verdict.ok:
            raise SafelightError(f"the {check.kernel} kernel is wrong on this device: {verdict.said} ({check.where})")
        errors[check.kernel] = max(errors.get(check.kernel, 0.0), verdict.error)
    return errors


def _prefilled(network: DiffusionGemma, context: int) -> tuple[KVCache, float]:
    """Returns a cache of ``context`` tokens with room for two canvases, and the milliseconds that prefill took."""
    device, cache = network.device, network.new_cache()
    cache.reserve(context + 2 * network.config.canvas_length)
    for _ in range(2 if device.type == "cuda" else 1):  # the first run builds its kernels
        cache.truncate(0)
        wait(device)
        started = time.perf_counter()
        for start in range(0, context, cache.piece):
            ids = torch.arange(start, min(start + cache.piece, context))
            network.prefill(ids % network.config.vocab_size, cache)
        wait(device)
        milliseconds = 1e3 * (time.perf_counter() - started)
    return cache, milliseconds


def _time_steps(program: StepProgram, config: GenerationConfig, report: Report) -> tuple[list[float], list[float]]:
    """Returns the milliseconds of every step, from launch until its result is on the host, and of first steps that
    commit a canvas; the cache is not advanced."""
    turns = range(1, 2) if program.network.device.type == "cpu" else range(ROUNDS + 1)  # turn 0 warms up
    times, first_times = list[float](), list[float]()
    program.seed(0)
    for turn in turns:
        program.begin(_noise(program), None, config)
        milliseconds = list[float]()
        for step in range(config.max_denoising_steps):
            milliseconds.append(_step_ms([program], step))
            place = f"step {step + 1} of {config.max_denoising_steps}, canvas {turn} of {turns[-1]}"
            report(f"took {place}, {milliseconds[-1]:.0f} ms")
        program.begin(_noise(program), None, config, committed=_noise(program))
        first = _step_ms([program], 0)
        if turn:
            times += milliseconds
            first_times.append(first)
    report("took a first step that commits")
    return times, first_times


def _time_together(programs: Sequence[StepProgram], steps: int, report: Report) -> list[dict[str, float]]:
    """Times ``steps`` steps, none of which commits, of one program and of all in one pass.

    Returns:
        The number of runs, ``step_ms_median``, and as ``ratio`` the steps a second divided by those of one alone.
    """
    rows: list[dict[str, float]] = []
    warm_up = WARM_UP if programs[0].captures else 0  # on a CPU nothing is captured, and a step takes seconds
    config = GenerationConfig(max_denoising_steps=warm_up + steps, confidence_threshold=0.0)
    for count in (1, len(programs)):
        for program in programs[:count]:
            program.begin(_noise(program), None, config)
        times = [_step_ms(programs[:count], step) for step in range(warm_up + steps)][warm_up:]
        median = statistics.median(times)
        first = rows[0]["step_ms_median"] if rows else median
        rows.append({"runs": count, "step_ms_median": median, "ratio": count * first / median})
        report(f"took steps of {count} runs at once, {median:.0f} ms each")
    return rows


def _step_ms(programs: Sequence[StepProgram], step: int) -> float:
    started = time.perf_counter()
    launch_together([LaunchStep(program, step) for program in programs])
    results = [program.collect(step) for program in programs]
    ms = 1e3 * (time.perf_counter() - started)
    if not all(result.finite for result in results):
        device = programs[0].network.device
        raise SafelightError(f"a step gave logits that are not numbers on {device}: a kernel is wrong")
    return ms


def _noise(program: StepProgram) -> Tensor:
    """Returns a random canvas, shape (length,)."""
    return torch.randint(program.network.config.vocab_size, (program.length,), device=program.network.device)


def _has_graphs(device: torch.device) -> bool:
    return device.type == "cuda"


def _time_parts(program: StepProgram, config: GenerationConfig) -> dict[str, float]:
    """Returns the milliseconds per step of each part, run alone on its inputs of a step.

    On a GPU a part's kernels are captured too, so that launching them costs what it costs inside a step.
    """
    device, parts = program.network.device, dict[str, float]()
    for part, work in _record(program, config).items():
        replayed = _replayable(program, work) if _has_graphs(device) else work
        parts[part] = statistics.median(timed(device, replayed, 5 if _has_graphs(device) else 1))
    return parts


def _record(program: StepProgram, config: GenerationConfig) -> dict[str, Callable[[], object]]:
    """Returns for each part a function that repeats all its calls of one step.

    The router is among the experts if it is called as a module of its own."""
    network, fused = program.network, program.fused
    work_of: dict[str, list[Callable[[], object]]] = {}

    def remember(owner: object, name: str, part: str) -> None:
        plain = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            work_of.setdefault(part, []).append(lambda: plain(*arguments, **named))
            return plain(*arguments, **named)

        setattr(owner, name, call)

    kinds: dict[type, str] = {Attention: "attention", GatedMLP: "dense"}
    parts: list[tuple[object, str, str]] = [(fused, part, part) for part in ("attention", "dense", "experts")]
    if fused is None:  # else it bypasses the modules
        parts = []
        for path, module in network.named_modules():
            if path.endswith((".experts", ".router")):
                parts.append((module, "forward", "experts"))
            elif type(module) in kinds:
                parts.append((module, "forward", kinds[type(module)]))
    for owner, name, part in parts:
        remember(owner, name, part)
    program.begin(_noise(program), None, config)
    program.run_step()
    for owner, name, _ in parts:
        delattr(owner, name)
    hidden = torch.randn(program.length, network.config.hidden_size, device=network.device, dtype=network.dtype)
    work_of["vocabulary"] = [lambda: program.vocabulary(hidden)]
    result = program.vocabulary(hidden)
    work_of["sampler"] = [lambda: program.settle(result)]
    return {part: (lambda calls=calls: [call() for call in calls]) for part, calls in work_of.items()}  # type: ignore[misc]


def _replayable(program: StepProgram, work: Callable[[], object]) -> Callable[[], object]:
    work()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(program.generator)  # the sampler draws from it
    with torch.cuda.graph(graph, capture_error_mode=CAPTURE_ERRORS):
        work()
    return graph.replay

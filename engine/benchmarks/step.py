"""Measures a denoising step of a model's shape with random packed weights. Prints nothing.

No checkpoint is needed: codes and scales are drawn at random on the device. The kernels of a step are compared with
their oracles, in a layer of each kind. Then steps are forced, without early stop, as in vLLM's published figures:
whole steps as in use (on CUDA one graph each), first steps that also commit the canvas before, and each part of a
step. On CUDA a part is run alone; on a CPU it is timed within the steps.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from engine.benchmarks.joint_step import JointStepTime, copied, joint_step_times, noise
from engine.benchmarks.measuring import (
    bytes_of,
    copy_bandwidth,
    forget_peak,
    memory_figures,
    percentile_95,
    prefilled,
    require_context,
    subject_figures,
    timed,
)
from engine.benchmarks.random_network import Report, random_network, silent
from engine.checks.network_checks import network_checks
from engine.checks.oracle import judge
from engine.config import GenerationConfig, ModelConfig
from engine.decoding.step_program import CAPTURE_ERRORS, StepProgram
from engine.errors import SafelightError
from engine.layers.attention import Attention
from engine.layers.mlp import GatedMLP
from engine.memory.device import Placement
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import BF16, Activations, Precision

STEPS = 16  # forced steps of a canvas
ROUNDS = 5


@dataclass(frozen=True)
class ShapeResult:
    """The measurements. Times in ms per step, bytes decimal."""

    shape: str
    device: str
    precision: dict[str, str | None]
    int8: list[str]  # products whose activations were rounded to int8
    context: int  # tokens before the canvas
    canvas: int
    threads: int  # of the processor that a pass takes; 0 on a GPU
    graph: bool  # True if steps were replayed from a CUDA graph
    plain_reason: str | None  # why kernels did not run
    oracle_error: dict[str, float]  # largest relative difference of a kernel from its oracle
    prefill_ms: float  # of the context; on a GPU the second run
    step_ms_median: float
    step_ms_p95: float
    commit_and_step_ms_median: float  # of a canvas's first step that commits the canvas before it in the same pass
    parts_ms: dict[str, float]  # run alone; on a CPU within the steps, where "gaps" is the rest of a step
    weight_bytes: int  # bytes read in a step
    bandwidth_gb_s: float  # of a copy on this device, bytes read and written
    read_gb_s: float  # weight bytes over step time
    floor_share: float  # weight bytes at the copy's bandwidth, over step time
    tokens_per_second: float  # with STEPS steps for a canvas
    peak_memory_mb: float | None
    peak_memory_note: str
    plan_bytes: int | None  # planned memory of the whole
    peak_of_plan: float | None  # the peak over the plan; None if one is unknown, or they do not count the same
    device_memory_mb: float | None  # used on a GPU by all programs, with contexts and what allocators keep
    together: list[JointStepTime] = field(default_factory=list)  # several runs' steps in one pass
    compared: dict[str, Any] | None = field(default=None)

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as the command line prints it with ``--json``."""
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
    report: Report = silent,
    reached: Report = silent,
    activations: Activations = BF16,
    parallel: int = 1,
) -> ShapeResult:
    """Builds a shape, checks it against the oracle and times its denoising steps.

    Args:
        context: tokens in the cache before the canvas.
        steps: forced steps of a canvas.
        rounds: canvases measured, after one that warms up; None takes 5, and 1 on a CPU.
        plan_bytes: planned memory of the whole, for the result.
        report: called with a few words after each part of the work.
        reached: called with the name of a phase when it has ended: "building", "prefill", "steps".
        activations: the products that round their activations.
        parallel: runs whose steps are also taken in one pass, each on its own cache.

    Raises:
        SafelightError: the context does not fit the model, the device is too small, a kernel is wrong, or a step's
            logits are not finite.
    """
    require_context(context, config, config.canvas_length)
    bandwidth = copy_bandwidth(placement.device)
    network = random_network(config, precision, placement, 0, report, activations)
    reached("building")
    rows = 2 * config.canvas_length  # of the cache, after the context
    with torch.inference_mode():
        errors = check_layers(network, activations)
        report("checked its kernels against the oracle")
        forget_peak(placement.device)
        cache, prefill_ms = prefilled(network, context, rows)
        report(f"prefilled {context} tokens")
        reached("prefill")
        caches = [cache, *(copied(network, cache, context + rows) for _ in range(parallel - 1))]
        programs = [StepProgram(network, each, config.canvas_length, activations=activations) for each in caches]
        took = _time_program(programs[0], steps, rounds, report)
        reached("steps")
        together = joint_step_times(programs, steps, report) if parallel > 1 else []
    return ShapeResult(
        int8=activations.int8,
        canvas=config.canvas_length,
        graph=bool(programs[0].graphs),
        oracle_error=errors,
        prefill_ms=prefill_ms,
        together=together,
        **subject_figures(name, precision, placement.device, context),
        **took.figures(config.canvas_length),
        **_bandwidth(network, bandwidth, took.median),
        **memory_figures(placement.device, plan_bytes),
    )


def _bandwidth(network: DiffusionGemma, bandwidth: float, milliseconds: float) -> dict[str, Any]:
    """Returns the figures of a step's weights, for a copy's bandwidth in bytes/s and a step's time."""
    weight_bytes = bytes_of(network)
    return {
        "weight_bytes": weight_bytes,
        "bandwidth_gb_s": bandwidth / 1e9,
        "read_gb_s": weight_bytes / milliseconds / 1e6,
        "floor_share": weight_bytes / bandwidth / (milliseconds / 1e3),
    }


def _has_graphs(device: torch.device) -> bool:
    return device.type == "cuda"


@dataclass(frozen=True)
class _StepTimes:
    """Milliseconds of each step, of each first step that commits, and of each part of a step."""

    steps: list[float]
    first_steps: list[float]
    parts: dict[str, float]

    @property
    def median(self) -> float:
        return statistics.median(self.steps)

    def figures(self, canvas: int) -> dict[str, Any]:
        """Returns the fields of the result that are about a step's time, over ``canvas`` tokens."""
        return {
            "step_ms_median": self.median,
            "step_ms_p95": percentile_95(self.steps),
            "commit_and_step_ms_median": statistics.median(self.first_steps),
            "tokens_per_second": canvas / (STEPS * self.median / 1e3),
            "parts_ms": {**self.parts, "gaps": self.median - sum(self.parts.values())},
        }


def _time_program(program: StepProgram, steps: int, rounds: int | None, report: Report) -> _StepTimes:
    device = program.network.device
    forced = GenerationConfig(max_denoising_steps=steps, confidence_threshold=0.0)
    warms_up = rounds is not None or device.type != "cpu"
    turns = range(1 - warms_up, 1 + (rounds or (ROUNDS if warms_up else 1)))  # round 0 warms up
    captured = _has_graphs(device)
    watched: dict[str, float] = {}
    with nullcontext() if captured else _watching(program, watched):
        times = _time_steps(program, forced, turns, report)
    first_times = _time_first_steps(program, forced, turns)
    report("took a first step that commits")
    count = len(turns) * steps
    parts = _time_parts(program, forced) if captured else {part: ms / count for part, ms in watched.items()}
    return _StepTimes(times, first_times, parts)


def check_layers(network: DiffusionGemma, activations: Activations = BF16) -> dict[str, float]:
    """Checks every kernel of a step in the first sliding and the first full layer, and the vocabulary stage.

    The operands are random tokens.

    Args:
        activations: the products of the vocabulary stage that round to int8; linear layers have their own setting.

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


def _time_steps(program: StepProgram, config: GenerationConfig, turns: range, report: Report) -> list[float]:
    """Returns the milliseconds of every step, from launch until its result is on the host. Turn 0 is not counted."""
    times: list[float] = []
    program.seed(0)
    for turn in turns:
        program.begin(noise(program), None, config)
        for step in range(config.max_denoising_steps):
            ms = _step_ms(program, step)
            if turn:
                times.append(ms)
            report(f"took step {step + 1} of {config.max_denoising_steps}, canvas {turn} of {turns[-1]}, {ms:.0f} ms")
    return times


def _time_first_steps(program: StepProgram, config: GenerationConfig, turns: range) -> list[float]:
    """Returns the milliseconds of first steps that commit a canvas; the cache is not advanced."""
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
    result = program.collect(step)
    ms = 1e3 * (time.perf_counter() - started)
    if not result.finite:
        raise SafelightError(f"a step gave logits that are not numbers on {program.network.device}: a kernel is wrong")
    return ms


def _time_parts(program: StepProgram, config: GenerationConfig) -> dict[str, float]:
    """Returns the milliseconds per step of each part, run alone on its inputs of a step.

    A part's kernels are captured too, so that launching them costs what it costs inside a step.
    """
    device, calls = program.network.device, _record(program, config)
    return {part: statistics.median(timed(device, _replayable(program, work), 5)) for part, work in calls.items()}


@contextmanager
def _watching(program: StepProgram, parts: dict[str, float]) -> Iterator[None]:
    """Adds up the milliseconds of each part in the steps taken in the context, on a CPU."""
    started: list[float] = []

    def before(*_: object) -> None:
        started.append(time.perf_counter())

    def after(part: str) -> Callable[..., None]:
        def hook(*_: object) -> None:
            parts[part] = parts.get(part, 0.0) + 1e3 * (time.perf_counter() - started.pop())

        return hook

    def timed(part: str, plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(argument: Any) -> Any:
            before()
            result = plain(argument)
            after(part)()
            return result

        return call

    handles = []
    for path, module in program.network.named_modules():
        part = _part(path, module)
        if part is not None:
            handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after(part))]
    methods = {"vocabulary": "vocabulary", "settle": "sampler"}
    for name, part in methods.items():
        setattr(program, name, timed(part, getattr(program, name)))
    yield
    for handle in handles:
        handle.remove()
    for name in methods:
        delattr(program, name)


def _part(path: str, module: nn.Module) -> str | None:
    """Returns the part that a module belongs to; the router belongs to the experts."""
    if path.endswith((".experts", ".router")):
        return "experts"
    return {Attention: "attention", GatedMLP: "dense"}.get(type(module))


def _record(program: StepProgram, config: GenerationConfig) -> dict[str, Callable[[], object]]:
    """Returns for each part a function that repeats all its calls of one step.

    The router is among the experts if it is called as a module of its own."""
    network, fused = program.network, program.fused
    found: dict[str, list[Callable[[], object]]] = {}
    handles = []

    def remember(part: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            found.setdefault(part, []).append(lambda: module.forward(*arguments, **named))

        return hook

    def remembering(part: str) -> Callable[..., Tensor]:
        plain = getattr(fused, part)

        def call(*arguments: Any) -> Tensor:
            found.setdefault(part, []).append(lambda: plain(*arguments))
            result: Tensor = plain(*arguments)
            return result

        return call

    for path, module in network.named_modules() if fused is None else ():
        part = _part(path, module)
        if part is not None:
            handles.append(module.register_forward_pre_hook(remember(part), with_kwargs=True))
    methods = () if fused is None else ("attention", "dense", "experts")  # these bypass the modules
    for part in methods:
        setattr(fused, part, remembering(part))
    program.begin(noise(program), None, config)
    program.run_step()
    for handle in handles:
        handle.remove()
    for part in methods:
        delattr(fused, part)
    hidden = torch.randn(program.length, network.config.hidden_size, device=network.device, dtype=network.dtype)
    found["vocabulary"] = [lambda: program.vocabulary(hidden)]
    result = program.vocabulary(hidden)
    found["sampler"] = [lambda: program.settle(result)]
    return {part: (lambda calls=calls: [call() for call in calls]) for part, calls in found.items()}  # type: ignore[misc]


def _replayable(program: StepProgram, work: Callable[[], object]) -> Callable[[], object]:
    work()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(program.generator)  # the sampler draws from it
    with torch.cuda.graph(graph, capture_error_mode=CAPTURE_ERRORS):
        work()
    return graph.replay

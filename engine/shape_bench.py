"""Measures a denoising step of a model's shape with random packed weights. Prints nothing.

No checkpoint is needed: codes and scales are drawn at random on the device. The first layer's experts and a linear
layer are compared with the plain oracle. Then steps are forced, without early stop, as vLLM's published figures are
made: whole steps as they run in use (on CUDA one graph each), first steps that also commit the canvas before, and, in
a pass of their own, each part of a step by itself.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from engine import kernels
from engine.bench import device_name, peak_memory_mb
from engine.config import GenerationConfig, ModelConfig
from engine.device import Placement
from engine.errors import SafelightError
from engine.kernels import reference
from engine.layers.attention import Attention
from engine.layers.block import Block
from engine.layers.mlp import GatedMLP
from engine.layers.packed import PackedExperts, PackedLinear, install, packed_weights
from engine.memory import device_memory
from engine.models.diffusion_gemma import DiffusionGemma
from engine.step_graph import CAPTURE_ERRORS, StepProgram
from engine.weights.quantize import BF16, Activations, Precision

STEPS = 16  # forced, a canvas
ROUNDS = 5
PIECE = 512  # tokens prefilled at a time
COPY_BYTES = 1 << 30  # of the copy that measures memory bandwidth, on a GPU
TOLERANCE = 0.02  # relative, of a bf16 kernel against the oracle in fp32
SPREAD = {"nf4": 0.56, "int4": 4.64, "int8": 73.3}  # standard deviation of uniformly random codes


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
    oracle_error: dict[str, float]  # largest relative difference of a layer from the oracle
    step_ms_median: float
    step_ms_p95: float
    commit_and_step_ms_median: float  # of a canvas's first step that commits the canvas before it in the same pass
    parts_ms: dict[str, float]  # measured one by one; "gaps" is what a step takes beyond their sum
    weight_bytes: int  # read once a step
    bandwidth_gb_s: float  # of a copy on this device, bytes read and written
    read_gb_s: float  # weight bytes over step time
    floor_share: float  # weight bytes at the copy's bandwidth, over step time
    tokens_per_second: float  # at STEPS steps a canvas
    peak_memory_mb: float | None
    peak_memory_note: str
    device_memory_mb: float | None  # taken on a GPU by all programs, with contexts and what allocators keep
    compared: dict[str, Any] | None = field(default=None)

    def as_dict(self) -> dict[str, Any]:
        """The result as the command line prints it with ``--json``."""
        return asdict(self)


def random_network(
    config: ModelConfig, precision: Precision, placement: Placement, activations: Activations = BF16, seed: int = 0
) -> DiffusionGemma:
    """A network of a shape with random weights, packed ones straight from random codes.

    Raises:
        SafelightError: the device has no room for it.
    """
    with torch.device("meta"):
        network = DiffusionGemma(config)
    install(network, precision, placement.dtype, activations)
    try:
        network = network.to_empty(device=placement.device)
    except torch.OutOfMemoryError as error:
        raise SafelightError(f"{placement.device} has no room for these weights; see safelight plan") from error
    draws = torch.Generator(device=placement.device).manual_seed(seed)
    for module in packed_weights(network):
        for codes in module.codes.view(-1, *module.codes.shape[-2:]):
            codes.copy_(
                torch.randint(
                    -127 if codes.dtype == torch.int8 else 0,
                    128 if codes.dtype == torch.int8 else 256,
                    codes.shape,
                    generator=draws,
                    device=codes.device,
                    dtype=torch.int16,
                )
            )
        # No two alike, so that a kernel that takes another weight's scale is off.
        module.scales.uniform_(0.5, 1.5, generator=draws).mul_(module.shape[-1] ** -0.5 / SPREAD[module.scheme.name])
    for name, parameter in network.named_parameters():
        data = parameter.data = parameter.data.to(placement.dtype)
        if parameter.dim() > 1:
            data.normal_(std=parameter.shape[-1] ** -0.5, generator=draws)
        else:
            data.fill_(parameter.shape[0] ** -0.25 if name.endswith(("q_norm.weight", "k_norm.weight")) else 1.0)
    return network.requires_grad_(False).eval()


def measure_shape(
    name: str,
    config: ModelConfig,
    precision: Precision,
    placement: Placement,
    context: int = 1024,
    steps: int = STEPS,
    rounds: int = ROUNDS,
    activations: Activations = BF16,
) -> ShapeResult:
    """Build a shape, check it against the oracle and time its denoising steps.

    Args:
        context: tokens in the cache before the canvas.
        steps: forced steps a canvas. rounds: canvases measured, after one that warms up.
        activations: which products round their activations to int8.

    Raises:
        SafelightError: the context does not fit the model, the device is too small, a kernel is wrong, or a step's
            logits are not finite.
    """
    if not 0 <= context <= config.max_position_embeddings - config.canvas_length:
        most = config.max_position_embeddings - config.canvas_length
        raise SafelightError(f"the context must be between 0 and {most} tokens for this shape, not {context}")
    bandwidth = copy_bandwidth(placement.device)
    network = random_network(config, precision, placement, activations)
    _forget_peak(placement.device)
    with torch.inference_mode():
        errors = check_layers(network)
        cache = network.new_cache()
        cache.reserve(context + 2 * config.canvas_length)
        for start in range(0, context, PIECE):
            network.prefill(torch.arange(start, min(start + PIECE, context)) % config.vocab_size, cache)
        program = StepProgram(network, cache, config.canvas_length, activations=activations)
        forced = GenerationConfig(max_denoising_steps=steps, confidence_threshold=0.0)
        times = _time_steps(program, forced, rounds)
        first_times = _time_first_steps(program, forced, rounds)
        parts = _time_parts(program, forced)
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
        tokens_per_second=config.canvas_length / (steps * median / 1e3),
        peak_memory_mb=memory,
        peak_memory_note=note,
        device_memory_mb=None if taken is None else taken[0] / 1e6,
    )


def check_layers(network: DiffusionGemma) -> dict[str, float]:
    """The first layer's experts and its query projection against the oracle in fp32, on random tokens.

    Raises:
        SafelightError: one of them is off by more than bf16 allows.
    """
    config, block = network.config, network.layers[0]
    assert isinstance(block, Block)
    draws = torch.Generator(device=network.device).manual_seed(1)
    x = torch.randn(
        config.canvas_length, config.hidden_size, generator=draws, device=network.device, dtype=network.dtype
    )
    errors = {}
    experts: nn.Module = block.experts
    if isinstance(experts, PackedExperts):
        weights, chosen = block.router(x)
        gate_up, down = experts.gate_up_proj.packed, experts.down_proj.packed
        errors["experts"] = _relative(
            experts(x, weights, chosen), reference.experts(x.float(), weights, chosen, gate_up, down)
        )
    linear: nn.Module = block.self_attn.q_proj
    if isinstance(linear, PackedLinear):
        oracle = reference.linear_int8 if linear.rounds else reference.linear
        errors["linear"] = _relative(linear(x), oracle(x.float(), linear.weight.packed))
    for layer, error in errors.items():
        if not error <= TOLERANCE:
            raise SafelightError(f"the {layer} kernel is wrong on this device: off by {error:.1%} from the oracle")
    return errors


def _relative(found: Tensor, expected: Tensor) -> float:
    return float((found.float() - expected).norm() / expected.norm())


def copy_bandwidth(device: torch.device) -> float:
    """Bytes a second, read and written, of a large copy on the device."""
    size = COPY_BYTES if device.type == "cuda" else COPY_BYTES // 16
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / (statistics.median(_timed(device, lambda: target.copy_(source), 5)) / 1e3)


def _forget_peak(device: torch.device) -> None:
    """What building and copying took is no part of a run's peak."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def _timed(device: torch.device, work: Callable[[], object], count: int) -> list[float]:
    """Milliseconds of each of ``count`` runs, after one that warms up."""
    work()
    times = []
    for _ in range(count):
        _wait(device)
        started = time.perf_counter()
        work()
        _wait(device)
        times.append(1e3 * (time.perf_counter() - started))
    return times


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _time_steps(program: StepProgram, config: GenerationConfig, rounds: int) -> list[float]:
    """Milliseconds of every step, from launch to its facts being on the host."""
    times: list[float] = []
    program.seed(0)
    for turn in range(rounds + 1):
        program.begin(_noise(program), None, config)
        for step in range(config.max_denoising_steps):
            ms = _step_ms(program, step)
            if turn:
                times.append(ms)
    return times


def _time_first_steps(program: StepProgram, config: GenerationConfig, rounds: int) -> list[float]:
    """Milliseconds of a first step that commits a canvas. The cache is never advanced: all see the same context."""
    times = []
    for _ in range(rounds + 1):
        program.begin(_noise(program), None, config, committed=_noise(program))
        times.append(_step_ms(program, 0))
    return times[1:]  # the first one warms up


def _step_ms(program: StepProgram, step: int) -> float:
    started = time.perf_counter()
    program.launch(step)
    told = program.collect(step)
    ms = 1e3 * (time.perf_counter() - started)
    if not told.finite:
        raise SafelightError(f"a step gave logits that are no numbers on {program.network.device}: a kernel is wrong")
    return ms


def _noise(program: StepProgram) -> Tensor:
    choices = program.network.config.vocab_size
    return torch.randint(choices, (program.length,), device=program.network.device)


def _time_parts(program: StepProgram, config: GenerationConfig) -> dict[str, float]:
    """Milliseconds a step of each part, run by itself on the inputs that it had in a step.

    On a GPU a part's kernels are captured too, so that launching them costs what it costs inside a step.
    """
    network, calls = program.network, _record(program, config)
    parts: dict[str, float] = {}
    for part, work in calls.items():
        parts[part] = statistics.median(_timed(network.device, _replayable(program, work), 5))
    return parts


def _record(program: StepProgram, config: GenerationConfig) -> dict[str, Callable[[], object]]:
    """A function a part that repeats all its calls of one step; the router counts there where it is called as one."""
    network, fused = program.network, program.fused
    found: dict[str, list[Callable[[], object]]] = {}
    kinds: dict[type[nn.Module], str] = {Attention: "attention", GatedMLP: "dense"}
    handles = []

    def remember(part: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            found.setdefault(part, []).append(lambda: module.forward(*arguments, **named))

        return hook

    for path, module in network.named_modules():
        part = "experts" if path.endswith((".experts", ".router")) else kinds.get(type(module))
        if part is not None:
            handles.append(module.register_forward_pre_hook(remember(part), with_kwargs=True))
    if fused is not None:  # whose attention is no module
        plain = fused.attention

        def attention(*arguments: Any) -> Tensor:
            found.setdefault("attention", []).append(lambda: plain(*arguments))
            return plain(*arguments)

        fused.attention = attention  # type: ignore[method-assign, assignment]
    program.begin(_noise(program), None, config)
    program.run_step()
    for handle in handles:
        handle.remove()
    if fused is not None:
        del fused.attention
    hidden = torch.randn(program.length, network.config.hidden_size, device=network.device, dtype=network.dtype)
    found["vocabulary"] = [lambda: program.vocabulary(hidden)]
    result = program.vocabulary(hidden)
    found["sampler"] = [lambda: program.settle(result)]
    return {part: (lambda calls=calls: [call() for call in calls]) for part, calls in found.items()}  # type: ignore[misc]


def _replayable(program: StepProgram, work: Callable[[], object]) -> Callable[[], object]:
    if not _has_graphs(program.network.device):
        return work
    work()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(program.generator)  # the sampler draws from it
    with torch.cuda.graph(graph, capture_error_mode=CAPTURE_ERRORS):
        work()
    return graph.replay


def _has_graphs(device: torch.device) -> bool:
    return device.type == "cuda"

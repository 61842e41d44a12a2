"""Times the parts of a denoising step: on a graphics card each by itself, on a CPU in the steps themselves."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from engine.config import GenerationConfig
from engine.decoding.step_program import CAPTURE_ERRORS, StepProgram
from engine.layers.attention import Attention
from engine.layers.mlp import GatedMLP


def timed(device: torch.device, work: Callable[[], object], count: int) -> list[float]:
    """Milliseconds of each of ``count`` runs, after one that warms up."""
    work()
    times = []
    for _ in range(count):
        wait(device)
        started = time.perf_counter()
        work()
        wait(device)
        times.append(1e3 * (time.perf_counter() - started))
    return times


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def noise(program: StepProgram) -> Tensor:
    """A canvas (C,)."""
    choices = program.network.config.vocab_size
    return torch.randint(choices, (program.length,), device=program.network.device)


def time_parts(program: StepProgram, config: GenerationConfig) -> dict[str, float]:
    """Milliseconds a step of each part, run by itself on the inputs that it had in a step.

    A part's kernels are captured too, so that launching them costs what it costs inside a step.
    """
    network, calls = program.network, _record(program, config)
    parts: dict[str, float] = {}
    for part, work in calls.items():
        parts[part] = statistics.median(timed(network.device, _replayable(program, work), 5))
    return parts


@contextmanager
def watching(program: StepProgram, parts: dict[str, float]) -> Iterator[None]:
    """Adds up milliseconds of each part in the steps that are taken inside, on a CPU, where nothing runs aside."""
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
    """What a module counts as; the router counts to the experts."""
    if path.endswith((".experts", ".router")):
        return "experts"
    return {Attention: "attention", GatedMLP: "dense"}.get(type(module))


def _record(program: StepProgram, config: GenerationConfig) -> dict[str, Callable[[], object]]:
    """A function a part that repeats all its calls of one step; the router counts there where it is called as one."""
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
    methods = () if fused is None else ("attention", "dense", "experts")  # which go past the modules
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

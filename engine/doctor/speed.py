"""The section of speed: a step at the real shape with its parts on a GPU; the embedded model and a CPU's figures."""

from __future__ import annotations

import statistics
from functools import partial

import torch

from engine.benchmarks.generation import measure
from engine.benchmarks.measuring import copy_bandwidth, timed
from engine.benchmarks.step import measure_shape
from engine.catalog import SKILLS
from engine.doctor.reporter import Found, Reporter
from engine.doctor.shapes import REAL, real
from engine.memory.device import choose
from engine.memory.plan import device_memory
from engine.models.model import load_model
from engine.quant import PRECISIONS
from engine.threads import LEAST_WORK, available_threads, work_of

SIDE = 2816  # of the timed matrices
CANVAS = 256
CONTEXT = 1024


def run(reporter: Reporter, device: str, quick: bool) -> None:
    """Measures this device."""
    place = torch.device(device)
    reporter.fact("a large copy, read and written", round(copy_bandwidth(place) / 1e9, 1), "GB/s")
    reporter.fact("bf16 matrix product", round(product_rate(place) / 1e9, 1), "GFLOP/s")
    if place.type == "cpu":
        reporter.check("steps of the embedded model", lambda: _embedded(reporter))
        reporter.left_out("steps of the real shape", "no GPU; see safelight bench --shape 26b-a4b")
    elif quick:
        reporter.left_out("steps of the real shape", "left out by --quick")
    else:
        for precision in ("int4", "nf4"):
            reporter.check(f"steps of the real shape, {precision}", partial(_real, reporter, device, precision))


def product_rate(device: torch.device) -> float:
    """Returns the operations per second of a bf16 matrix product as large as a layer's."""
    x = torch.randn(CANVAS, SIDE, device=device).bfloat16()
    weight = torch.randn(SIDE, SIDE, device=device).bfloat16()
    seconds = statistics.median(timed(device, lambda: x @ weight.T, 6)[1:]) / 1e3
    return 2 * CANVAS * SIDE**2 / seconds


def _embedded(reporter: Reporter) -> Found:
    """Measures the skills model as ``safelight bench`` does."""
    model = load_model(SKILLS, device="cpu")
    result = measure(model, runs=2)
    work, every = work_of(model.config), available_threads()
    reporter.fact("embedded model's step, median", round(result.step_ms_median, 2), "ms")
    reporter.fact("embedded model's step, 95th percentile", round(result.step_ms_p95, 2), "ms")
    reporter.fact("threads it takes", f"{result.threads} of {every}")
    least = f"{LEAST_WORK / 1e9:.0f} billion multiplications"
    reporter.fact("because", f"a pass has {work / 1e9:.2f} billion multiplications; more threads pay from {least} on")
    return result.step_ms_median > 0, f"{result.step_ms_median:.1f} ms"


def _real(reporter: Reporter, device: str, precision: str) -> Found:
    """Measures forced steps with random weights, as ``safelight bench --shape`` does."""
    placement = choose(device)
    phases: dict[str, tuple[float, float]] = {}

    def reached(phase: str) -> None:
        taken = device_memory(placement.device)
        phases[phase] = torch.cuda.memory_allocated(placement.device) / 1e9, (taken[0] if taken else 0) / 1e9
        if phase == "steps":
            peak = torch.cuda.max_memory_allocated(placement.device) / 1e9
            reporter.fact(f"{precision}: peak of prefill and steps", round(peak, 2), "GB")

    result = measure_shape(REAL, real(), PRECISIONS[precision], placement, CONTEXT, reached=reached)
    named = f"{precision}: "
    for part, ms in {"step, median": result.step_ms_median, "step, p95": result.step_ms_p95}.items():
        reporter.fact(named + part, round(ms, 3), "ms")
    reporter.fact(f"{named}a first step that commits", round(result.commit_and_step_ms_median, 3), "ms")
    for part, ms in result.parts_ms.items():
        reporter.fact(f"{named}{part} of a step", round(ms, 3), "ms")
    reporter.fact(f"{named}weights read", round(result.read_gb_s), "GB/s")
    reporter.fact(f"{named}share of the memory floor", round(100 * result.floor_share), "%")
    for phase, (allocated, taken) in phases.items():
        reporter.fact(f"{named}allocated after {phase}", round(allocated, 2), "GB")
        reporter.fact(f"{named}device's memory taken after {phase}", round(taken, 2), "GB")
    torch.cuda.empty_cache()
    return result.graph, f"{result.step_ms_median:.2f} ms" if result.graph else f"no graph: {result.plain_reason}"

"""The section of kernels against their oracles: at real shapes on a GPU, at tiny ones in the interpreter on a CPU.

On a CPU the functions for packed weights are checked as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from engine import kernels
from engine.benchmarks.random_network import random_network
from engine.checks.network_checks import network_checks
from engine.checks.oracle import OracleCheck, judge
from engine.doctor import interpreter
from engine.doctor.reporter import Found, Reporter
from engine.doctor.shapes import CheckShape, real, tiny
from engine.memory.device import Placement
from engine.quant import PRECISIONS

REPEATS = 12  # on a card, where a race may show in one run of many; the interpreter has none


def run(reporter: Reporter, device: str, quick: bool) -> None:
    """Checks all kernels; with ``quick`` one shape of each."""
    place = torch.device(device)
    if place.type == "cpu":
        torch.set_num_threads(1)  # on tiny shapes a second thread only waits
        _processor(reporter, place)
    why = kernels.why_plain(place) if place.type == "cuda" else interpreter.why_not()
    if why is not None:
        reporter.left_out("kernels", why)
        return
    from engine.doctor.kernel_checks import kernel_checks  # needs Triton

    if place.type == "cuda":
        shape = CheckShape(real(), place, torch.bfloat16, contexts=(0, 1024, 3000, 32_768))
    else:
        shape = CheckShape(tiny(), place, torch.float32, contexts=(0, 40))

    repeats = REPEATS if place.type == "cuda" else 2
    seen: set[str] = set()
    for name, make in kernel_checks(shape):
        kernel = name.split()[0].rstrip(",")
        if not quick or kernel not in seen:
            reporter.check(name, partial(_judged, make, repeats))
        seen.add(kernel)
    where = f"real shapes on {place}" if place.type == "cuda" else "tiny shapes in Triton's interpreter, fp32"
    reporter.fact("checked at", where)


def _processor(reporter: Reporter, device: torch.device) -> None:
    """Checks the CPU functions for packed weights, in bf16, in the layers of a tiny network."""
    with torch.inference_mode():
        network = random_network(tiny(), PRECISIONS["int4"], Placement(device, torch.bfloat16, "asked for"))
        checks = list(network_checks(network))
    for check in checks:
        reporter.check(f"processor's {check.kernel}, {check.where}", partial(_judged, check.make, 2, with_mixups=False))


def _judged(make: Callable[[], OracleCheck], repeats: int, with_mixups: bool = True) -> Found:
    with torch.inference_mode():
        verdict = judge(make(), repeats, with_mixups)
    torch.cuda.empty_cache()  # does nothing where no card is in use
    return verdict.ok, verdict.said

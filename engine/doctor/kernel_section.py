"""The section of kernels against their oracles: at real shapes on a GPU, at tiny ones in the interpreter on a CPU."""

from __future__ import annotations

from functools import partial

import torch

from engine import kernels
from engine.doctor import interpreter
from engine.doctor.oracle import judge
from engine.doctor.shapes import Shape, real, tiny
from engine.doctor.telling import Found, Teller

REPEATS = 12  # on a card, where a race shows in one run of many; the interpreter has none


def look(teller: Teller, device: str, quick: bool) -> None:
    """Check all kernels; with ``quick`` one shape of each."""
    place = torch.device(device)
    why = kernels.why_plain(place) if place.type == "cuda" else interpreter.why_not()
    if why is not None:
        teller.left_out("kernels", why)
        return
    from engine.doctor.kernel_checks import Make, kernel_checks

    if place.type == "cuda":
        shape = Shape(real(), place, torch.bfloat16, contexts=(0, 1024, 3000, 32_768))
    else:
        torch.set_num_threads(1)  # a second one only waits
        shape = Shape(tiny(), place, torch.float32, contexts=(0, 40))

    def judged(make: Make) -> Found:
        with torch.inference_mode():
            verdict = judge(make(), REPEATS if place.type == "cuda" else 2)
        if place.type == "cuda":
            torch.cuda.empty_cache()
        return verdict.ok, verdict.said

    seen: set[str] = set()
    for name, make in kernel_checks(shape):
        kernel = name.split()[0].rstrip(",")
        if not quick or kernel not in seen:
            teller.check(name, partial(judged, make))
        seen.add(kernel)
    where = f"real shapes on {place}" if place.type == "cuda" else "tiny shapes in Triton's interpreter, fp32"
    teller.fact("checked at", where)

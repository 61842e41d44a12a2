"""The section of machine code: every kernel of the table compiled for three cards, and the launches of a step."""

from __future__ import annotations

from functools import partial

from engine.decoding.step_launches import step_launches
from engine.doctor import ahead
from engine.doctor.budgets import MOST_LAUNCHES, MOST_LAYER_LAUNCHES, TARGETS
from engine.doctor.build import Build
from engine.doctor.reporter import Found, Reporter
from engine.doctor.shapes import real
from engine.quant import PRECISIONS


def run(reporter: Reporter, _device: str, _quick: bool) -> None:
    """Counts and compiles; reports a row for each kernel and target."""
    if why := ahead.why_not():
        reporter.left_out("kernels compiled for three cards", why)
        return
    from engine.doctor.kernel_table import step_kernels  # needs Triton

    launches: dict[str, int] = {}

    def counted() -> Found:
        found = step_launches(real(), PRECISIONS["int4"])
        launches.update(found.names)
        reporter.fact("launches of a step", found.step)
        reporter.fact("of a step that commits", found.commit_and_step)
        for kind, count in found.layers.items():
            reporter.fact(f"of a layer, {kind.replace('_', ' ')}", count)
        few = max(found.step, found.commit_and_step) <= MOST_LAUNCHES
        few = few and max(found.layers.values()) <= MOST_LAYER_LAUNCHES
        return few, f"{found.step}, at most {MOST_LAUNCHES} allowed, and {MOST_LAYER_LAUNCHES} of a layer"

    def compiled(build: Build) -> Found:
        code = build.compile()
        reporter.row(**build.figures(code), launches=launches.get(build.kernel.__name__))
        return not (faults := build.faults(code)), "; ".join(faults) or "within its budget"

    reporter.check("launches of a step", counted)
    for target in TARGETS:
        for build in step_kernels(target):
            reporter.check(str(build), partial(compiled, build))

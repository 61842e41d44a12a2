"""The section of machine code: every kernel of the table compiled for three cards, each within its budget."""

from __future__ import annotations

from functools import partial

from engine.doctor import ahead
from engine.doctor.budgets import TARGETS
from engine.doctor.telling import Found, Teller


def look(teller: Teller, _device: str, _quick: bool) -> None:
    """Compile, and tell a row a kernel and target."""
    if why := ahead.why_not():
        teller.left_out("kernels compiled for three cards", why)
        return
    from engine.doctor.build import Build
    from engine.doctor.kernel_table import step_kernels

    def compiled(build: Build) -> Found:
        code = build.compile()
        teller.row(**build.figures(code))
        return not (faults := build.faults(code)), "; ".join(faults) or "within its budget"

    for target in TARGETS:
        for build in step_kernels(target):
            teller.check(str(build), partial(compiled, build))

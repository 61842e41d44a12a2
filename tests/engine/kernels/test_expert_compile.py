"""The expert kernels' machine code at the real model's shapes: registers, spills, instructions for a weight."""

from __future__ import annotations

import pytest

from engine.doctor.budgets import TARGETS
from engine.doctor.build import Build, compile_all
from engine.doctor.kernel_table import step_kernels
from engine.doctor.machine_code import MachineCode

# The router's two for a prompt and for a canvas, the longest of all builds, differ in how inputs are split among
# programs, nvfp4's two products in addresses, and SiLU from GELU behind the loop: each is built for one card.
LEFT_OUT = {
    *("router sm_120", "router prompt sm_89", "router prompt sm_90"),
    *("gate_up nvfp4 sm_89", "down nvfp4 sm_90", "gate_up nvfp4 sm_120"),
    *("gate_up int4-g32 silu sm_90", "gate_up int4-g32 silu sm_120"),
}
BUILDS = {
    str(each): each
    for target in TARGETS
    for each in step_kernels(target)
    if each.part == "experts" and str(each) not in LEFT_OUT
}


@pytest.fixture(scope="module")
def codes() -> dict[str, MachineCode]:
    """By name, all at once."""
    return dict(zip(BUILDS, compile_all(list(BUILDS.values())), strict=True))


@pytest.mark.parametrize("build", BUILDS.values(), ids=str)
def test_within_budget(build: Build, codes: dict[str, MachineCode]) -> None:
    assert build.faults(codes[str(build)]) == []

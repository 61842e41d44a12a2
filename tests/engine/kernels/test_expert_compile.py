"""The expert kernels' machine code at the real model's shapes: registers, spills, instructions for a weight."""

from __future__ import annotations

import pytest

from tests.engine.kernels.machine.budgets import TARGETS, MachineCode
from tests.engine.kernels.machine.build import Build, quick_or_slow
from tests.engine.kernels.machine.step_kernels import step_kernels

# Sorting and products of experts are the same code but for addresses on all cards, as are the router's two, the longest
# of all builds, but for how inputs are split among programs: each is in every run for one card, and one of int4
# on a server's card as well. ``-m slow`` builds all.
QUICK = {
    *("gate_up int4-g32 sm_89", "down int4-g32 sm_120", "gate_up nf4-g64 sm_120", "down nf4-g64 sm_89"),
    *("gate_up nvfp4 sm_90", "down nvfp4 sm_120", "gate_up int4-g32 prompt sm_90", "gate_up int4-g32 silu sm_89"),
    *("gate_up int4-g32 sm_90", "group sm_89", "combine sm_89", "router sm_89", "router prompt sm_120"),
}
BUILDS = [each for target in TARGETS for each in step_kernels(target) if each.part == "experts"]


def test_the_quick_ones_are_of_the_table() -> None:
    assert {str(each) for each in BUILDS} >= QUICK
    assert {each.name for each in BUILDS} == {each.name for each in BUILDS if str(each) in QUICK}


@pytest.mark.parametrize("build", quick_or_slow(BUILDS, lambda each: str(each) in QUICK))
def test_within_budget(build: Build, codes: dict[str, MachineCode]) -> None:
    assert build.faults(codes[str(build)]) == []

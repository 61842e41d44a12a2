"""The step's kernels built for cards at their real shapes, each within its budget. Experts have a file apart."""

from __future__ import annotations

import pytest

from tests.engine.kernels.building import quick_or_slow
from tests.engine.kernels.machine.budgets import SHARED, TARGETS
from tests.engine.kernels.machine.build import Build
from tests.engine.kernels.machine.machine_code import MachineCode
from tests.engine.kernels.machine.step_kernels import step_kernels


def is_quick(build: Build) -> bool:
    """Whether a build is in every run, as each takes up to two seconds: a kernel has one card unless code differs.

    On a server's card attention is other code, on an RTX 50 the widest attention and the products of four bits. Of the
    heads, and of the products of uint4 and int4, which differ in a few loads, each has another card. Kernels of
    rounded activations, which are off unless they are asked for, are in none.
    ``-m slow`` builds all of it.
    """
    if "int8" in build.name or build.name == "quantize":
        return False
    if build.capability == 89:
        heads = ("score",)
        return build.name not in (*heads, "linear4 int4-g32", "attention sliding text", "attention full text")
    server = ("attention sliding", "attention full", "linear4 int4-g32", "score several runs")
    return build.name in {90: server, 120: ("attention full text", "score")}[build.capability]


BUILDS = [each for target in TARGETS for each in step_kernels(target) if each.part != "experts"]


@pytest.mark.parametrize("build", quick_or_slow(BUILDS, is_quick))
def test_within_budget(build: Build, codes: dict[str, MachineCode]) -> None:
    assert build.faults(codes[str(build)]) == []


@pytest.mark.parametrize("capability", TARGETS)
def test_budgets_are_what_they_were_set_for(capability: int) -> None:
    """Nothing is loosened by a slip in the table."""
    budgets = {build.name: build.budget for build in step_kernels(capability)}
    assert all(budget.registers <= 255 and budget.programs >= 1 for budget in budgets.values())
    for name, loop in (("linear4 int4-g32", 3.9), ("linear4 uint4-g32", 4.8)):
        four_bit = budgets[name]
        assert (four_bit.registers, four_bit.programs, four_bit.spill_bytes) == (96, 3, 0)
        assert 0 < four_bit.decoding <= 2.5 < four_bit.looping <= loop
        assert four_bit.loads_in_flight == four_bit.products_in_flight == 1
    matrix = {name for name, budget in budgets.items() if budget.matrix_units}
    assert matrix >= {"linear8 out", "score", "embed", "attention sliding", "attention full", "down nf4-g64"}
    assert "ld.global.b8" in budgets["embed"].ptx_without
    for name in ("linear8 out", "score", "embed", "attention sliding", "attention sliding text", "attention full"):
        assert budgets[name].loads_in_flight > 0 or (name, capability) == ("attention full", 90)
    assert budgets["attention full"].products == (34 if capability == 90 else 96)
    assert budgets["attention sliding"].products == (18 if capability == 90 else 64)
    assert {name for name, budget in budgets.items() if budget.spill_bytes} <= {"embed", "score int8"}
    for name in ("linear_int8 out", "linear_int8 gated", "score int8"):
        budget = budgets[name]
        assert (budget.matrix_units, budget.spill_bytes <= (80 if name == "score int8" else 0)) == ("I", True)
        assert 0 < budget.instructions < 350
        assert set(budget.loop_without) >= {"I2F", "PRMT", "LDL", "STL"}
    assert capability == 90 or budgets["embed int8"].matrix_units == "I"
    for name, most in {"int4-g32": (2.5, 3.9), "nf4-g64": (4.8, 6.3), "nvfp4": (4.2, 5.6)}.items():
        for kernel in ("gate_up", "down"):
            budget = budgets[f"{kernel} {name}"]
            assert 0 < budget.decoding <= most[0]
            assert 0 < budget.looping <= most[1]
            assert budget.programs >= 3
            assert budget.loads_in_flight == budget.products_in_flight == 1
            assert budget.loop_without == ("STS", "LDG")
    assert SHARED[capability] <= 227 << 10


def test_an_argument_that_a_kernel_has_not_is_told() -> None:
    build = step_kernels(90)[0]
    wrong = Build("experts", "wrong", 90, build.kernel, build.constants, build.budget, types={"nothing_ptr": "i8"})
    with pytest.raises(ValueError, match=r"wrong has no arguments \['nothing_ptr'\]"):
        _ = wrong.signature

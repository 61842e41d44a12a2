"""The step's kernels built for cards at their real shapes, each within its budget. Experts have a file apart."""

from __future__ import annotations

import pytest

from tests.engine.kernels.machine.budgets import TARGETS, MachineCode
from tests.engine.kernels.machine.build import Build, quick_or_slow
from tests.engine.kernels.machine.step_kernels import step_kernels


def is_quick(build: Build) -> bool:
    """Returns whether a build is in every run; each takes up to two seconds. A kernel has one card unless code differs.

    On a server's card attention is other code, on an RTX 50 the widest attention and the products of four bits. Of the
    heads, and of the products of uint4 and int4, which differ in a few loads, each has another card.
    ``-m slow`` builds all of it.
    """
    if build.capability == 89:
        heads = ("score",)
        return build.name not in (*heads, "linear4 int4-g32", "attention sliding text", "attention full text")
    server = ("attention sliding", "attention full", "linear4 int4-g32", "score several runs")
    return build.name in {90: server, 120: ("attention full text", "score")}[build.capability]


BUILDS = [each for target in TARGETS for each in step_kernels(target) if each.part != "experts"]


@pytest.mark.parametrize("build", quick_or_slow(BUILDS, is_quick))
def test_within_budget(build: Build, codes: dict[str, MachineCode]) -> None:
    assert build.faults(codes[str(build)]) == []

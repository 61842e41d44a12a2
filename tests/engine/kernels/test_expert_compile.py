"""The expert kernels' machine code at the real model's shapes: registers, spills, instructions for a weight."""

from __future__ import annotations

import pytest

from engine.doctor.budgets import TARGETS
from engine.doctor.build import Build
from engine.doctor.kernel_table import step_kernels


@pytest.mark.parametrize(
    "build", [each for target in TARGETS for each in step_kernels(target) if each.part == "experts"], ids=str
)
def test_within_budget(build: Build) -> None:
    assert build.faults(build.compile()) == []

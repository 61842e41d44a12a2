"""Builds of kernels as tests: which of them are in every run, and their machine code."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.engine.kernels.machine.build import Build


def quick_or_slow(builds: Iterable[Build], is_quick: Callable[[Build], bool]) -> list[object]:
    """Returns a parameter for each build; those that are not quick are built on request."""
    return [pytest.param(each, id=str(each), marks=() if is_quick(each) else pytest.mark.slow) for each in builds]

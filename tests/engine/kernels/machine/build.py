"""A kernel as a step launches it on a kind of card: shapes, types, warps, and its code budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.engine.kernels.machine.ahead import compiled
from tests.engine.kernels.machine.budgets import CodeBudget, MachineCode

# Element types of pointer arguments by name, unless a kernel overrides them. Others point to bf16.
POINTED = {
    "i1": ("forbidden_ptr", "kept_ptr"),
    "i8": ("codes_ptr", "table_ptr"),
    "i16": ("words_ptr",),
    "i32": (
        *("pairs_ptr", "offsets_ptr", "tiles_ptr", "arrived_ptr", "span_ptr", "end_ptr", "exponents_ptr"),
        *("highest_ptr", "tokens_ptr", "pinned_ptr", "nonfinite_ptr", "flags_ptr"),
    ),
    "i64": (
        *("chosen_ptr", "draw_ptr", "argmax_ptr", "candidate_ptr", "ids_ptr", "noise_ptr", "canvas_ptr"),
        *("previous_ptr", "unchanged_ptr", "step_ptr"),
    ),
    "fp32": (
        *("scales_ptr", "matrix_scales_ptr", "matrix_scale_ptr", "parts_ptr", "soft_parts_ptr"),
        *("statistics_ptr", "temperature_ptr"),
        *("entropy_ptr", "logsumexp_ptr", "out_entropy_ptr", "knobs_ptr", "frequencies_ptr"),
        *("probability_ptr", "gap_ptr"),
    ),
}
TYPES = {name: kind for kind, names in POINTED.items() for name in names}
FLOATS = ("eps", "cap", "embed_scale")  # all other numbers are i32


@dataclass(frozen=True)
class Build:
    """A kernel as a step launches it on a kind of card."""

    part: str  # of a step
    name: str
    capability: int
    kernel: Any  # a ``@triton.jit`` function
    constants: Mapping[str, Any]
    budget: CodeBudget
    warps: int = 8
    stages: int = 3
    types: Mapping[str, str] | None = None  # different from ``TYPES``

    def __str__(self) -> str:
        return f"{self.name} sm_{self.capability}"

    @property
    def signature(self) -> dict[str, str]:
        """Run-time arguments and their types."""
        own = dict(self.types or {})
        assert set(own) <= set(self.kernel.arg_names), f"{self.name} has not all of these arguments: {sorted(own)}"
        known = TYPES | own
        names = [name for name in self.kernel.arg_names if name not in self.constants]
        pointers = {name: f"*{known.get(name, 'bf16')}" for name in names if name.endswith("_ptr")}
        return {name: pointers.get(name) or ("fp32" if name in FLOATS else "i32") for name in names}

    def compiled(self) -> MachineCode:
        return compiled(self.kernel, self.signature, self.constants, self.capability, self.warps, self.stages)

    def faults(self, code: MachineCode) -> list[str]:
        """Returns the machine code's violations of the budget, in words."""
        return self.budget.faults(code, self.capability)


def quick_or_slow(builds: Iterable[Build], is_quick: Callable[[Build], bool]) -> list[object]:
    """Returns a parameter for each build; those that are not quick are built on request."""
    return [pytest.param(each, id=str(each), marks=() if is_quick(each) else pytest.mark.slow) for each in builds]

"""The sections in order: the subject of each, its time limit, and its kind of process.

Modules are imported by the process that runs the section: some need torch, some Triton, some neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from engine.doctor.reporter import Reporter


@dataclass(frozen=True)
class SectionPlan:
    """A section before it is run. Its module has ``run(reporter, device, quick)``."""

    name: str
    title: str
    module: str
    seconds: float  # time limit
    quick: bool = True  # whether it is run with ``--quick``
    interprets: bool = False  # on a CPU, kernels run in Triton's interpreter

    def run(self, reporter: Reporter, device: str, quick: bool) -> None:
        """Runs the section in this process."""
        import_module(self.module).run(reporter, device, quick)


SECTIONS = (
    SectionPlan("environment", "this machine", "engine.doctor.environment", 120),
    SectionPlan("kernels", "kernels against their oracles", "engine.doctor.kernel_section", 600, interprets=True),
    SectionPlan("steps", "whole steps, two ways", "engine.doctor.step_section", 600, interprets=True),
    SectionPlan("speed", "speed", "engine.doctor.speed", 900),
    SectionPlan("machine code", "machine code", "engine.doctor.code_section", 600, quick=False),
)


def planned(name: str) -> SectionPlan:
    """Returns a section by its name.

    Raises:
        KeyError: there is none of this name.
    """
    return {section.name: section for section in SECTIONS}[name]

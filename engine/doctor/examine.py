"""Runs the sections in sequence, each in a separate process, and continues after failures. Knows no torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

SECTIONS = {
    "environment": "this machine",
    "kernels": "kernels against their oracles",
    "steps": "whole steps, by two paths",
}
"""Modules here, each with ``run(reporter, device)``: the first one reports the device of the others."""
MAX_SECONDS = 600.0  # of a section


@dataclass
class SectionReport:
    """The records of one section's process, in order; see ``Reporter``."""

    name: str
    checks: list[dict[str, Any]] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def status(self) -> str:
        """``wrong``, ``right``, ``not checked`` (all were left out), or ``told`` for a section without checks."""
        verdicts = {check["ok"] for check in self.checks}
        return "wrong" if False in verdicts else "right" if True in verdicts else "not checked" if verdicts else "told"

    def value(self, name: str) -> Any:
        """Returns a fact's value; None if it was not reported."""
        return next((fact["value"] for fact in self.facts if fact["fact"] == name), None)


@dataclass(frozen=True)
class Report:
    """All sections."""

    sections: list[SectionReport]

    @property
    def failed(self) -> list[str]:
        """Names of failed checks, each with its section's."""
        wrong = [(one.name, check) for one in self.sections for check in one.checks if check["ok"] is False]
        return [f"{name}: {check['check']}" for name, check in wrong]

    @property
    def verdict(self) -> str:
        """The last line: says that everything is right, or what is not."""
        if not (failed := self.failed):
            return "All checks are right."
        return f"{len(failed)} check{'s' * (len(failed) != 1)} failed: {'; '.join(failed)}"

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as the command line prints it with ``--json``."""
        sections = [{"status": section.status, **asdict(section)} for section in self.sections]
        return {"ok": not self.failed, "failed": self.failed, "sections": sections}


def examine(progress: Callable[[str], None]) -> Report:
    """Checks this machine.

    Args:
        progress: called with a line at the start of each section.
    """
    sections = list[SectionReport]()
    for number, (name, title) in enumerate(SECTIONS.items(), start=1):
        device = str(sections[0].value("device") or "cpu") if sections else "cpu"
        progress(f"{number} of {len(SECTIONS)}: {title} …")
        sections.append(run_section(name, device))
    return Report(sections)


def run_section(name: str, device: str, most: float = MAX_SECONDS) -> SectionReport:
    """Runs one section. If its process ends before it is done, the check that it was at has failed."""
    section, started = SectionReport(name), time.monotonic()
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [*_program(), name, device], stdout=subprocess.PIPE, stderr=errors, env=_environment()
        ) as process,
    ):
        alarm = threading.Timer(most, process.kill)
        alarm.start()
        begun: str | None = None
        try:
            assert process.stdout is not None
            for line in process.stdout:
                try:
                    record = json.loads(line)
                except ValueError:  # truncated by the process's end
                    continue
                if "begin" in record:
                    begun = record["begin"]
                elif "check" in record:
                    begun = None
                    section.checks.append(record)
                else:
                    section.facts.append(record)
            code = process.wait()
        finally:
            alarm.cancel()
            process.kill()
        section.seconds = round(time.monotonic() - started, 1)
        if code != 0:
            late = f"it was not done after {most:g} s" if section.seconds >= most else ""
            why = late or f"the process ended with {_ending(code)}: {_last_line(errors)}"
            section.checks.append({"check": begun or SECTIONS.get(name, name), "ok": False, "said": why})
    return section


def _program() -> list[str]:
    """Returns the command of a section's process: Python, or in a bundle the program itself."""
    if getattr(sys, "frozen", False):
        return [sys.executable, "--doctor"]
    # -P: do not import from the current folder
    return [sys.executable, "-P", "-m", "engine.doctor.child"]


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _ending(code: int) -> str:
    """Returns a process's exit status in words."""
    try:
        return signal.Signals(-code).name if code < 0 else f"status {code}"
    except ValueError:
        return f"status {code}"


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return " ".join(lines[-1].split())[:300] if lines else "it printed nothing"

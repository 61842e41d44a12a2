"""Runs the sections in sequence, each in a separate process, and continues after failures. Knows no torch.

If a process crashes, its current check has failed, and a new process continues with the next check.
"""

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
from pathlib import Path
from typing import IO

from engine.doctor.report import CheckResult, Report, SectionReport
from engine.doctor.reporter import LOST
from engine.doctor.sections import SECTIONS, SectionPlan

MOST_DEATHS = 5  # of a section's processes
Progress = Callable[[str], None]


def examine(quick: bool, progress: Progress) -> Report:
    """Checks this machine.

    Args:
        quick: leave out slow checks.
        progress: called with a line at the start of each check.
    """
    device = "cpu"
    sections = []
    run = [plan for plan in SECTIONS if plan.quick or not quick]
    for plan in SECTIONS:
        if plan not in run:
            left_out = CheckResult(plan.title, None, "left out by --quick")
            sections.append(SectionReport(plan.name, checks=[left_out]))
            continue
        section = run_section(plan, device, quick, _numbered(progress, run.index(plan) + 1, len(run)))
        if plan.name == "environment":
            device = str(section.value("device") or "cpu")
        sections.append(section)
    return Report(sections, quick)


def _numbered(progress: Progress, number: int, count: int) -> Progress:
    return lambda text: progress(f"{number} of {count}: {text}")


def run_section(plan: SectionPlan, device: str, quick: bool, progress: Progress) -> SectionReport:
    """Runs one section, in as many processes as needed."""
    section, started = SectionReport(plan.name), time.monotonic()
    for _ in range(MOST_DEATHS):
        left = plan.seconds - (time.monotonic() - started)
        if left <= 0 or not _run_process(plan, section, device, quick, left, progress):
            break
    section.seconds = round(time.monotonic() - started, 1)
    return section


def _run_process(
    plan: SectionPlan, section: SectionReport, device: str, quick: bool, seconds: float, progress: Progress
) -> bool:
    """Runs the rest of a section; returns True if it crashed in a check, so that others may be left."""
    extent = "quick" if quick else "full"
    command = [*_program(), plan.name, device, extent, *(check.name for check in section.checks)]
    environment = _environment(plan.interprets and device == "cpu")
    late = threading.Event()
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
    ):

        def end() -> None:
            late.set()
            process.kill()

        alarm = threading.Timer(seconds, end)
        alarm.start()
        try:
            assert process.stdout is not None
            begun = _listen(process.stdout, section, plan.title, progress)
            code = process.wait()
        finally:
            alarm.cancel()
            process.kill()
        alarm.join()
        why = f"the process ended with {_ending(code)}: {_last_line(errors)}"
    if code == 0 or (code == LOST and begun is None):
        return code != 0
    if late.is_set():
        why = f"it was not done after {plan.seconds:g} s"
    section.checks.append(CheckResult(begun or plan.title, False, why))
    return begun is not None and not late.is_set()


def _listen(stream: IO[bytes], section: SectionReport, title: str, progress: Progress) -> str | None:
    """Reads a process's reports until it ends; returns the check that began and did not end."""
    begun: str | None = None
    progress(f"{title} …")
    for line in stream:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # truncated by the process's end
        found = section.take(record)
        if found is not None:
            progress(f"{title}: {found}")
        begun = found if found is not None else None if "check" in record else begun
    return begun


def _program() -> list[str]:
    """Returns the command of a section's process: Python, or in a bundle the program itself."""
    if getattr(sys, "frozen", False):
        return [sys.executable, "--doctor"]
    # -P: do not import from the current folder
    return [sys.executable, "-P", "-m", "engine.doctor.child"]


def _environment(interprets: bool) -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return environment | {"PYTHONPATH": os.pathsep.join(paths)} | ({"TRITON_INTERPRET": "1"} if interprets else {})


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

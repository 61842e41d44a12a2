"""Sections in processes of their own: reports come back, and whatever happens to one, the others go on."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from pathlib import Path

import pytest
import torch

from engine.doctor import environment, examine, kernels, steps
from engine.doctor.examine import SECTIONS, Report, SectionReport, run_section
from engine.doctor.reporter import Reporter

CHILD = """
import os, sys, time
from engine.doctor import child
from engine.doctor.reporter import Reporter

def run(reporter: Reporter, device: str) -> None:
    print("a library prints")
    reporter.fact("device", device)
    reporter.check("sound", lambda: (True, device))
    {what}
    reporter.check("elsewhere", lambda: (None, "not here"))

sys.modules["engine.doctor.some"] = sys.modules[__name__]
sys.exit(child.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("what", "said", "goes_on"),
    [
        ("reporter.check('bad', lambda: (False, 'off by 3%'))", "off by 3%", True),
        ("reporter.check('bad', lambda: os.abort())", "the process ended with SIGABRT: a library prints", False),
        ("reporter.check('bad', lambda: sys.exit('no more'))", "the process ended with status 1: no more", False),
        ("reporter.check('bad', lambda: open('begun', 'x') and time.sleep(60))", "it was not done after 0.1 s", False),
    ],
)
def test_a_check_that_fails_is_reported(
    what: str, said: str, goes_on: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Alarm(threading.Timer):
        """Runs from the beginning of the check that takes too long: on a busy machine a process starts slowly."""

        def run(self) -> None:
            while not Path("begun").exists() and not self.finished.wait(0.005):
                pass
            super().run()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(examine.threading, "Timer", Alarm)
    child = tmp_path / "child.py"
    child.write_text(CHILD.format(what=what))
    monkeypatch.setattr(examine, "_program", lambda: [sys.executable, str(child)])
    found = run_section("some", "cpu", 0.1 if "sleep" in what else 60.0)
    checks = {check["check"]: (check["ok"], check["said"]) for check in found.checks}
    assert checks.pop("bad") == (False, said)
    assert checks == {"sound": (True, "cpu")} | ({"elsewhere": (None, "not here")} if goes_on else {})
    assert (found.value("device"), found.status) == ("cpu", "wrong")
    report = Report([found])
    assert report.verdict == "1 check failed: some: bad"
    assert report.as_dict()["failed"] == ["some: bad"]


def test_an_error_is_reported_and_a_device_that_is_lost_is_left_behind() -> None:
    out = io.StringIO()
    reporter = Reporter(out)
    reporter.check("odd", lambda: (1 / 0, ""))  # type: ignore[arg-type, return-value]
    assert "ZeroDivisionError: division by zero" in out.getvalue()

    def illegal() -> tuple[bool, str]:
        raise RuntimeError("CUDA error: an illegal memory access")

    with pytest.raises(SystemExit, match="the device's state is lost"):
        reporter.check("bad", illegal)


def test_sections_are_given_the_device_that_the_first_one_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, str]] = []

    def run(name: str, device: str) -> SectionReport:
        ran.append((name, device))
        return SectionReport(name, facts=[{"fact": "device", "value": "cuda:0", "unit": ""}])

    monkeypatch.setattr(examine, "run_section", run)
    said: list[str] = []
    report = examine.examine(said.append)
    assert ran == [("environment", "cpu"), ("kernels", "cuda:0"), ("steps", "cuda:0")]
    assert said == [f"{number} of 3: {title} …" for number, title in enumerate(SECTIONS.values(), start=1)]
    assert (report.verdict, report.as_dict()["ok"]) == ("All checks are right.", True)


def test_the_environment_is_reported() -> None:
    out = io.StringIO()
    environment.run(Reporter(out), "cpu")
    records = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [record for record in records if record.get("ok") is False] == []
    assert {"fact": "Python", "value": sys.version.split()[0], "unit": ""} in records


def test_a_section_runs_in_a_process_that_finds_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of its name in the current folder is another one."""
    (tmp_path / "engine.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    found = run_section("platform", "cpu")
    said = "the process ended with status 1: ModuleNotFoundError: No module named 'engine.doctor.platform'"
    assert found.checks == [{"check": "platform", "ok": False, "said": said}]


def test_this_machine_is_right() -> None:
    before, out = torch.get_num_threads(), io.StringIO()
    kernels.run(Reporter(out), "cpu")
    steps.run(Reporter(out), "cpu")
    torch.set_num_threads(before)
    records = [json.loads(line) for line in out.getvalue().splitlines()]
    checks = {record["check"]: record["ok"] for record in records if "check" in record}
    assert set(checks.values()) == {True}
    kinds = {name.split()[0] for name in checks}
    assert kinds == {"linear", "experts", "attention", "vocabulary", "a", "steps"}
    assert {record["fact"] for record in records if "fact" in record} >= {"embedded model's step, median"}


def test_no_section_is_imported_by_the_one_who_runs_them() -> None:
    code = "import sys, engine.doctor.examine; sys.exit('torch' in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", f'"{code}"' if os.name == "nt" else code]) == 0

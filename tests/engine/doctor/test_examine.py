"""Sections in processes of their own: what is told comes back, and whatever happens to one, the others go on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from engine.doctor import examine
from engine.doctor.report import CheckResult, Report, SectionReport
from engine.doctor.sections import SECTIONS, SectionPlan, planned

CHILD = """
import os, sys, time
from engine.doctor.reporter import Reporter

def run(reporter: Reporter, device: str, quick: bool) -> None:
    print("a library prints")
    reporter.fact("device", "cpu")
    reporter.fact("interpreting", os.environ.get("TRITON_INTERPRET"))
    reporter.check("sound", lambda: (True, device))
    if not quick:
        {what}
    reporter.check("behind", lambda: (True, "reached"))
    reporter.left_out("elsewhere", "not here")
"""


def section(folder: Path, monkeypatch: pytest.MonkeyPatch, what: str, **changes: object) -> SectionPlan:
    (folder / "some_section.py").write_text(CHILD.format(what=what))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    plan = SectionPlan("some", "some things", "some_section", **{"seconds": 60, **changes})  # type: ignore[arg-type]
    child = folder / "child.py"
    child.write_text(
        "import sys\nfrom engine.doctor import child, sections\nimport some_section\n"
        f"sections.SECTIONS = ({plan!r},)\nsys.exit(child.main(sys.argv[1:]))\n".replace(
            "SectionPlan(", "sections.SectionPlan("
        )
    )
    monkeypatch.setattr(examine, "_program", lambda: [sys.executable, str(child)])
    return plan


def by_name(found: SectionReport) -> dict[str, CheckResult]:
    assert len({check.name for check in found.checks}) == len(found.checks)
    return {check.name: check for check in found.checks}


@pytest.mark.parametrize(
    ("what", "name", "said"),
    [
        ("reporter.check('bad', lambda: (False, 'off by 3%'))", "bad", "off by 3%"),
        ("reporter.check('bad', lambda: 1 / 0)", "bad", "ZeroDivisionError: division by zero"),
        ("reporter.check('bad', lambda: os.abort())", "bad", "the process ended with SIGABRT: a library prints"),
        ("reporter.check('bad', lambda: sys.exit('no more'))", "bad", "the process ended with status 1: no more"),
    ],
)
def test_one_check_fails_and_the_others_are_made(
    what: str, name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    found = examine.run_section(section(tmp_path, monkeypatch, what), "cpu", False, lines.append)
    checks = by_name(found)
    assert (checks[name].ok, checks[name].said) == (False, said)
    assert (checks["sound"].ok, checks["behind"].ok, checks["elsewhere"].ok) == (True, True, None)
    assert [fact.name for fact in found.facts] == ["device", "interpreting"]
    assert found.status == "wrong"
    assert "some things: behind" in lines
    report = Report([found], quick=False)
    assert report.verdict == f"1 check failed: some: {name}"


def test_a_device_that_is_lost_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process computes after such an error means nothing: another one goes on."""
    what = "reporter.check('bad', lambda: exec('raise RuntimeError(\"CUDA error: an illegal memory access\")'))"
    found = examine.run_section(section(tmp_path, monkeypatch, what), "cpu", False, lambda _: None)
    assert "illegal memory access" in by_name(found)["bad"].said
    assert by_name(found)["behind"].ok


def test_one_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = section(tmp_path, monkeypatch, "reporter.check('bad', lambda: time.sleep(60))", seconds=1.5)
    found = examine.run_section(plan, "cpu", False, lambda _: None)
    assert by_name(found)["bad"] == CheckResult("bad", False, "it was not done after 1.5 s")
    assert found.seconds < 30


def test_one_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = section(tmp_path, monkeypatch, "raise MemoryError('none left')")
    found = examine.run_section(plan, "cpu", False, lambda _: None)
    failed = found.failed
    assert [check.name for check in failed] == ["some things"]
    assert failed[0].said == "the process ended with status 1: MemoryError: none left"


@pytest.mark.parametrize(("interprets", "device", "wanted"), [(True, "cpu", "1"), (True, "cuda:0", None)])
def test_kernels_are_interpreted_on_a_cpu_alone(
    interprets: bool, device: str, wanted: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    plan = section(tmp_path, monkeypatch, "pass", interprets=interprets)
    found = examine.run_section(plan, device, True, lambda _: None)
    assert found.value("interpreting") == wanted
    assert found.status == "right"


def test_quick_leaves_out_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, str]] = []

    said: list[str] = []

    def run(plan: SectionPlan, device: str, quick: bool, progress: examine.Progress) -> SectionReport:
        ran.append((plan.name, device))
        progress(plan.title)
        found = SectionReport(plan.name, checks=[CheckResult("one", True, "")])
        found.take({"fact": "device", "value": "cuda:0", "unit": ""})
        assert quick
        return found

    monkeypatch.setattr(examine, "run_section", run)
    report = examine.examine(True, said.append)
    assert said == [f"{number} of 4: {plan.title}" for number, plan in enumerate(SECTIONS[:4], start=1)]
    assert ran == [("environment", "cpu"), ("kernels", "cuda:0"), ("steps", "cuda:0"), ("speed", "cuda:0")]
    assert report.sections[-1].checks == [CheckResult("machine code", None, "left out by --quick")]
    assert report.sections[-1].status == "not checked"
    assert report.verdict == "All checks are right."
    assert report.as_dict()["ok"] is True


def test_the_environment_is_told_by_a_real_process() -> None:
    found = examine.run_section(planned("environment"), "cpu", True, lambda _: None)
    assert found.failed == []
    assert found.value("Python") == sys.version.split()[0]
    assert found.value("device") in ("cpu", "cuda:0")
    assert isinstance(found.value("torch"), str)


def test_no_section_is_imported_by_the_one_who_runs_them() -> None:
    assert len({plan.name for plan in SECTIONS}) == len(SECTIONS)
    code = "import sys, engine.doctor.examine; sys.exit('torch' in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", f'"{code}"' if os.name == "nt" else code]) == 0

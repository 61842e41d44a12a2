"""``safelight doctor`` as its users meet it; what it looks at is stood in for."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from app.cli import doctor
from app.cli.main import main
from engine.doctor.report import CheckResult, Report, SectionReport

Capture = pytest.CaptureFixture[str]
ROW = {"part": "experts", "kernel": "gate_up int4-g32", "registers": 95, "spill_bytes": 0, "shared_bytes": 16384}


def report(quick: bool, ok: bool) -> Report:
    environment = SectionReport("environment", checks=[CheckResult("a card", None, "no CUDA device")], seconds=2.0)
    environment.take({"fact": "memory", "value": 25.3, "unit": "GB"})
    environment.take({"fact": "driver", "value": None, "unit": ""})
    kernels = SectionReport("kernels", checks=[CheckResult("linear8 64 x 128", ok, "off by 2.5e-07\x1b[2J")])
    code = SectionReport("machine code", checks=[CheckResult("gate_up int4-g32 sm_89", True, "within its budget")])
    code.take({"row": {**ROW, "target": "sm_89", "decoding": 2.14, "launches": 30}})
    code.take({"row": {**ROW, "target": "sm_90", "decoding": None}})
    return Report([environment, kernels, code], quick)


@pytest.fixture
def stood_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    def stand_in(ok: bool) -> None:
        def examine(quick: bool, progress: Callable[[str], None]) -> Report:
            progress("this machine …")
            progress("this machine: a card")
            return report(quick, ok)

        monkeypatch.setattr(doctor, "examine", examine)

    return stand_in


def test_json_is_one_object_and_progress_goes_elsewhere(stood_in: Callable[[bool], None], capsys: Capture) -> None:
    stood_in(True)
    assert main(["doctor", "--json", "--quick"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert out.count("\n") == 1
    assert (found["ok"], found["failed"], found["quick"]) == (True, [], True)
    assert [(each["name"], each["status"]) for each in found["sections"]] == [
        ("environment", "not checked"),
        ("kernels", "right"),
        ("machine code", "right"),
    ]
    assert found["sections"][0]["facts"][0] == {"name": "memory", "value": 25.3, "unit": "GB"}
    assert found["sections"][2]["rows"][0]["decoding"] == 2.14
    assert err.splitlines() == [
        "safelight: checking this machine: half a minute on an idle machine, up to three minutes on a busy one",
        "safelight: this machine …",
    ]


def test_a_failed_check_is_named_and_exits_with_1(stood_in: Callable[[bool], None], capsys: Capture) -> None:
    stood_in(False)
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == ["kernels: linear8 64 x 128"]
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "1 check failed: kernels: linear8 64 x 128"
    assert any(line.split()[:5] == ["linear8", "64", "x", "128", "WRONG"] for line in out.splitlines())
    assert "\x1b" not in out


def test_tables_tell_what_was_found(stood_in: Callable[[bool], None], capsys: Capture) -> None:
    stood_in(True)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "All checks are right."
    assert any(line.split() == ["memory", "25.3", "GB"] for line in lines)
    assert any(line.split() == ["driver", "none"] for line in lines)
    assert any(line.split() == ["a", "card", "not", "checked", "no", "CUDA", "device"] for line in lines)
    assert any(line.split() == ["kernel", "launches", "sm_89", "sm_90"] for line in lines)
    kernel = next(line for line in lines if line.startswith("gate_up int4-g32"))
    assert kernel.split("gate_up int4-g32")[1].split() == [
        "30",
        "95",
        "·",
        "0",
        "·",
        "16",
        "·",
        "2.1",
        "95",
        "·",
        "0",
        "·",
        "16",
    ]
    assert not any("within its budget" in line for line in lines)  # the table has said it


@pytest.mark.parametrize("wrong", [["--section", "kernels"], ["here"]])
def test_bad_arguments_are_one_line(wrong: list[str], capsys: Capture) -> None:
    assert main(["doctor", *wrong]) == 2
    assert capsys.readouterr().err.startswith("safelight: ")


def test_help_says_what_it_does(capsys: Capture) -> None:
    assert main(["doctor", "--help"]) == 0
    assert "0 if all checks are right, 1 if not" in " ".join(capsys.readouterr().out.split())

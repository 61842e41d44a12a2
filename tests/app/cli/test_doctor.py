"""``safelight doctor`` as its users meet it; what it looks at is stood in for."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from app.cli import doctor
from app.cli.main import main
from engine.doctor.examine import Report, SectionReport

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def stood_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    def stand_in(ok: bool) -> None:
        facts = [{"fact": "memory", "value": 25.3, "unit": "GB"}, {"fact": "driver", "value": None, "unit": ""}]
        card = [{"check": "a card", "ok": None, "said": "no CUDA device"}]
        linear = [{"check": "linear int4", "ok": ok, "said": "off by 2.5e-07\x1b[2J"}]
        found = [SectionReport("environment", card, facts, 2.0), SectionReport("kernels", linear)]
        monkeypatch.setattr(doctor, "examine", lambda progress: progress("1 of 2: this machine …") or Report(found))

    return stand_in


def test_json_is_one_object_and_progress_goes_elsewhere(stood_in: Callable[[bool], None], capsys: Capture) -> None:
    stood_in(True)
    assert main(["doctor", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert out.count("\n") == 1
    assert (found["ok"], found["failed"]) == (True, [])
    statuses = [(each["name"], each["status"]) for each in found["sections"]]
    assert statuses == [("environment", "not checked"), ("kernels", "right")]
    assert found["sections"][0]["facts"][0] == {"fact": "memory", "value": 25.3, "unit": "GB"}
    assert err.splitlines()[1:] == ["safelight: 1 of 2: this machine …"]


def test_a_failed_check_is_named_and_exits_with_1(stood_in: Callable[[bool], None], capsys: Capture) -> None:
    stood_in(False)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "1 check failed: kernels: linear int4"
    assert any(line.split()[:3] == ["linear", "int4", "WRONG"] for line in out.splitlines())
    assert any(line.split() == ["memory", "25.3", "GB"] for line in out.splitlines())
    assert "\x1b" not in out

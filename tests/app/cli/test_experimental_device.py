"""A device that was never tried, as users of the terminal meet it: torch says that it is here, and has none."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import torch

from app.cli.main import main
from engine.doctor import environment
from engine.doctor.reporter import Reporter
from engine.memory import experimental

NOT_USED = "safelight: Apple's graphics processor is not used: it failed with "


@pytest.fixture(autouse=True)
def mac(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setattr(experimental, "_verdicts", {})
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("mps"))


def test_a_line_says_why_it_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["generate", "Reverse the word robot.", "--json"]
    assert main(ask) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["text"], found["device"]) == ("tobor", "cpu")
    assert err.startswith(NOT_USED)
    assert err.count("\n") == 1
    assert main([*ask, "--device", "mps"]) == 2
    assert capsys.readouterr().err == f"{err.strip()}; use cpu or auto\n"
    assert main([*ask, "--device", "cpu"]) == 0
    assert capsys.readouterr().err == ""


def test_doctor_names_it_and_what_its_check_found() -> None:
    device, out = torch.device("mps", 0), io.StringIO()
    for why in (None, "", "it is too slow"):
        if why is not None:
            experimental.keep(device, why)
        environment.run(Reporter(out), "cpu")
    records = map(json.loads, out.getvalue().splitlines())
    values = [record["value"] for record in records if record.get("fact") == "experimental device"]
    found = ("not checked yet", "right in its check", "it is too slow")
    assert values == [f"mps:0, Apple's graphics processor: {each}" for each in found]

"""The section of speed: what is told of a card, on a tiny shape without one, and of a CPU."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine.benchmarks import step
from engine.doctor import speed
from engine.doctor.reporter import Reporter
from tests.engine.packing import packable


def records(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_step_of_the_real_shape_is_told_with_parts_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = step.measure_shape

    def quickly(*arguments: Any, reached: Callable[[str], None]) -> Any:
        return measure(*arguments, steps=1, rounds=1, reached=reached)

    monkeypatch.setattr(speed, "measure_shape", quickly)
    monkeypatch.setattr(speed, "real", lambda: packable().config)
    monkeypatch.setattr(speed, "CONTEXT", 20)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 2e9)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 3e9)
    out = io.StringIO()
    ok, said = speed._real(Reporter(out), "cpu", "int4")
    assert (ok, said) == (False, "no graph: the kernels need an NVIDIA GPU")
    facts = {record["fact"]: record["value"] for record in records(out)}
    for name in ("step, median", "experts of a step", "gaps of a step", "weights read", "share of the memory floor"):
        assert f"int4: {name}" in facts
    assert {f"int4: allocated after {phase}" for phase in ("building", "prefill", "steps")} <= facts.keys()
    assert facts["int4: peak of prefill and steps"] == 3.0


def test_figures_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "SIDE", 64)
    monkeypatch.setattr(speed, "copy_bandwidth", lambda _: 5e9)
    monkeypatch.setattr(speed, "_embedded", lambda _: (True, "9 ms"))
    out = io.StringIO()
    speed.run(Reporter(out), "cpu", False)
    found = records(out)
    assert found[0] == {"fact": "a large copy, read and written", "value": 5.0, "unit": "GB/s"}
    assert found[1]["value"] > 0
    checks = {record["check"]: record["ok"] for record in found if "check" in record}
    assert checks == {"steps of the embedded model": True, "steps of the real shape": None}

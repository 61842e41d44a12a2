"""The doctor names the kernels of 4-bit products, and why ours in C is none of them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from engine import windows
from engine.doctor import environment
from engine.doctor.reporter import Reporter
from engine.kernels import cpu_int4, cpu_w4a8, native

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def a_processor(monkeypatch: Patch, tmp_path: Path) -> None:
    """One with AVX-512, on which nothing is built."""
    monkeypatch.setattr(environment.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(environment.torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(environment.cpu, "has_bf16_units", lambda: True)
    monkeypatch.setattr(native, "HERE", tmp_path)
    monkeypatch.setattr(native, "instructions", lambda: "avx512")
    monkeypatch.setattr(native, "compiler", lambda: "/usr/bin/cc")
    monkeypatch.setattr(windows, "IS_WINDOWS", False)
    having(monkeypatch, block=64, rows=64)


def having(monkeypatch: Patch, block: int, rows: int) -> None:
    monkeypatch.setattr(cpu_int4, "block", lambda: block)
    monkeypatch.setattr(cpu_w4a8, "block", lambda: rows)


@pytest.mark.parametrize(("name", "units"), [("avx512", "AVX-512 VNNI"), ("avx2", "AVX2"), ("amx", "AMX")])
def test_ours_serves_experts(monkeypatch: Patch, name: str, units: str) -> None:
    monkeypatch.setattr(native, "instructions", lambda: name)
    assert (environment.why_not_ours(), environment.experts_kernel()) == (None, f"ours in C, {units}")


def test_without_a_compiler_it_says_what_to_install(monkeypatch: Patch) -> None:
    having(monkeypatch, 64, 0)
    monkeypatch.setattr(native, "compiler", lambda: None)
    assert environment.why_not_ours() == "there is no C compiler to build it with; install gcc or clang"
    assert environment.experts_kernel() == "torch's, AVX512"
    monkeypatch.setattr(windows, "IS_WINDOWS", True)
    assert environment.why_not_ours() == "it is not built on Windows yet"
    monkeypatch.setattr(environment.platform, "machine", lambda: "arm64")
    assert environment.why_not_ours() == "it is written for x86-64, and this processor is arm64"


def test_other_reasons(monkeypatch: Patch) -> None:
    having(monkeypatch, 64, 0)
    assert "could not be built" in (environment.why_not_ours() or "")
    having(monkeypatch, 64, 32)
    assert "blocks of 32 rows, and torch lays weights in blocks of 64" in (environment.why_not_ours() or "")
    having(monkeypatch, 0, 0)
    assert "this torch has none" in (environment.why_not_ours() or "")
    assert environment.experts_kernel() == "decoded and multiplied in bf16"


def test_the_report_has_them(monkeypatch: Patch) -> None:
    def facts() -> dict[str, object]:
        out = io.StringIO()
        environment._processor_facts(Reporter(out))
        found = [json.loads(line) for line in out.getvalue().splitlines()]
        return {fact["fact"]: fact["value"] for fact in found}

    found, why = facts(), "why not by our kernel in C"
    assert found["4-bit experts"] == "ours in C, AVX-512 VNNI"
    assert why not in found
    having(monkeypatch, 64, 0)
    assert str(facts()[why]).startswith("it could not be built")

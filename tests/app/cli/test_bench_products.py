"""``safelight bench --products`` as its users meet it, with a measurement that takes no time."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest

from app.cli.main import main
from engine.benchmarks import products
from engine.kernels import measured
from engine.kernels.measurement import Measurement, Timed

Capture = pytest.CaptureFixture[str]
QUIET, BUSY = 0.0, 1.0


def measuring(disturbed: float) -> Callable[..., products.ProductsResult]:
    """Measures nothing: every product takes a microsecond, and a millionth of one for each number."""
    times = [
        Timed(one.name, 1, inputs, outputs, rows, 1e-6 + 1e-12 * inputs * outputs * rows)
        for one in products.CANDIDATES
        for inputs, outputs in one.sizes
        for rows in one.rows
    ]
    found = products.ProductsResult(Measurement(measured.here(), tuple(times)), disturbed)

    def measure(report: products.Report, _stop: threading.Event) -> products.ProductsResult:
        report(0.5, "4 bits")
        return found

    return measure


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["bench", "--products", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_measurement_is_printed_and_kept(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "measure_products", measuring(QUIET))
    code, out, err = run(capsys)
    assert (code, err) == (0, "safelight: 4 bits …\n")
    lines = out.splitlines()
    assert all(any(line.startswith(one.what) for line in lines) for one in products.CANDIDATES[:-1])
    assert "4 bits: torch's kernel at all rows (without a measurement: up to 128 rows)." in lines
    assert f"Kept in {measured.place()}; " in lines[-1]
    assert measured.kept() is not None


def test_json_holds_every_time(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "measure_products", measuring(QUIET))
    code, out, _ = run(capsys, "--json")
    record = json.loads(out)
    assert (code, out.count("\n")) == (0, 1)
    assert record.keys() == {"setting", "times", "kept", "disturbed"}
    assert len(record["times"]) == sum(len(one.sizes) * len(one.rows) for one in products.CANDIDATES)
    assert record["kept"] == str(measured.place())


def test_beside_busy_programs_nothing_is_kept(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "measure_products", measuring(BUSY))
    code, out, _ = run(capsys)
    assert code == 0
    assert out.endswith("Other programs were busy, so this is not kept. Measure again while nothing else runs.\n")
    assert measured.kept() is None
    assert json.loads(run(capsys, "--json")[1])["kept"] is None


def test_a_stopped_measurement_is_not_kept(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "measure_products", lambda *_: None)
    assert run(capsys) == (130, "", "safelight: stopped; nothing was kept\n")
    assert measured.kept() is None


@pytest.mark.parametrize("other", [["--shape", "26b-a4b"], ["--parallel", "2"], ["--window"], ["--model", "x"]])
def test_it_goes_with_no_other_measurement(capsys: Capture, other: list[str]) -> None:
    code, out, err = run(capsys, *other)
    assert (code, out) == (2, "")
    assert err == "safelight: --products needs no model and no shape; leave out the other options\n"

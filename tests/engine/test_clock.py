"""A clock that is set wrong: what is stored by it can be read again, and no two moments are one."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine import open_trace
from engine.clock import EARLIEST, LATEST, this_moment
from engine.text.template_sandbox import Rendering, compile_template, render
from engine.trace.header import TraceHeader
from tests.engine.traces import header, made_up, write

WRONG = {"1906": -2e9, "an empty battery": 12.0, "11476": 3e11, "no calendar": 1e17}


def set_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr("engine.clock.time", SimpleNamespace(time=lambda: seconds))


def test_a_clock_that_is_right_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in (EARLIEST, 1_790_000_000.25, LATEST):
        set_clock(monkeypatch, seconds)
        assert this_moment() == seconds


@pytest.mark.parametrize("seconds", WRONG.values(), ids=WRONG)
def test_a_clock_that_is_wrong_goes_on(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, seconds)
    first = this_moment()
    set_clock(monkeypatch, seconds + 64)
    assert this_moment() - first == pytest.approx(64)
    assert datetime.fromtimestamp(first).year == 1971


@pytest.mark.parametrize("seconds", WRONG.values(), ids=WRONG)
def test_a_run_of_any_day_is_read_again_and_a_template_may_ask_for_it(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, seconds)
    made = dataclasses.replace(header(), **TraceHeader.fresh())
    assert open_trace(write(tmp_path / "run.sltrace", made_up(), made)).header.created == made.created
    assert render(compile_template("{{ strftime_now('%Y') }}"), Rendering(99), {}) == "1971"

"""The kept measurement comes from outside: it is checked, and what is not of this machine counts as none."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from typing import Any

import pytest

from engine import SafelightError, windows
from engine.kernels import cpu, cpu_int4, cpu_int8, measured
from engine.kernels.measurement import ALWAYS, MeasuredSetting, Measurement, Timed

NOWHERE = MeasuredSetting("a", "b", "c", 2, "d")


def timed(name: str, by_rows: dict[int, float], size: int = 64, threads: int = 1) -> list[Timed]:
    return [Timed(name, threads, size, size, rows, seconds) for rows, seconds in by_rows.items()]


def made(*times: list[Timed], setting: MeasuredSetting = NOWHERE) -> Measurement:
    return Measurement(setting, tuple(time for some in times for time in some))


def test_times_lie_on_lines_and_grow_in_proportion_behind_them() -> None:
    both = made(timed("a", {1: 1.0, 3: 2.0}, size=10), timed("a", {1: 3.0, 3: 6.0}, size=20))
    found = [both.seconds("a", 1, weights, rows) for weights, rows in ((100, 1), (50, 1), (100, 2), (250, 1), (400, 3))]
    assert found == [1.0, 1.0, 1.5, 2.0, 6.0]
    assert both.seconds("a", 1, 800, 1) == 6.0
    assert both.seconds("a", 1, 400, 6) == 12.0
    assert both.per_weight("a", 1) == 3.0 / 400
    with pytest.raises(KeyError):
        both.seconds("a", 2, 100, 1)


def test_what_disturbed_a_measurement_is_levelled() -> None:
    noisy = made(timed("a", {1: 9.0, 4: 2.0, 16: 3.0}, size=10), timed("a", {1: 1.5, 4: 4.0, 16: 5.0}, size=20))
    assert [noisy.seconds("a", 1, 100, rows) for rows in (1, 4, 16)] == [1.5, 2.0, 3.0]


def test_more_threads_never_take_longer() -> None:
    both = made(timed("a", {1: 1.0, 4: 3.0}), timed("a", {1: 7.0, 4: 2.0}, threads=2))
    assert [[both.seconds("a", threads, 1, rows) for rows in (1, 4)] for threads in (1, 2)] == [[1.0, 3.0], [1.0, 2.0]]


@pytest.mark.parametrize(
    ("mine", "theirs", "most"),
    [
        ({1: 1.0, 16: 2.0}, {1: 2.0, 16: 3.0}, ALWAYS),
        ({1: 3.0, 16: 4.0}, {1: 2.0, 16: 3.0}, 0),
        ({1: 1.0, 16: 16.0}, {1: 8.5, 16: 8.5}, 8),
    ],
)
def test_a_limit_is_where_the_other_product_becomes_faster(
    mine: dict[int, float], theirs: dict[int, float], most: int
) -> None:
    both = made(timed("a", mine), timed("b", theirs))
    assert both.most_rows("a", "b", 1) == most
    assert both.is_faster("a", "b", 1) is (most == ALWAYS)
    assert both.most_rows("a", "c", 1) is both.is_faster("c", "a", 1) is None


def test_the_nearest_number_of_threads_counts() -> None:
    some = made(timed("a", {1: 1.0}), timed("a", {1: 1.0}, threads=4))
    assert [some.threads(wanted) for wanted in (1, 2, 3, 4, 9)] == [1, 1, 4, 4, 4]


def of_this_machine() -> Measurement:
    four = made(timed("int4 torch", {1: 1.0, 100: 100.0}), timed("int4 decoded", {1: 50.0, 100: 50.0}))
    eight = made(timed("int8 torch", {1: 2.0, 9: 2.0}), timed("int8 decoded", {1: 1.0, 9: 1.0}))
    plain = made(timed("bf16", {1: 2.0, 9: 3.0}), timed("fp32", {1: 1.0, 9: 2.0}))
    return Measurement(measured.here(), four.times + eight.times + plain.times)


def test_kernels_are_chosen_by_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = cpu_int4.few(), cpu_int8.few()
    assert usual == (cpu_int4.FEW, cpu_int8.FEW)
    place = measured.keep(of_this_machine())
    assert (cpu_int4.few(), cpu_int8.few()) == usual  # until the next start
    measured.forget()
    monkeypatch.setattr(cpu, "_has_bf16_instructions", lambda: True)
    assert (cpu_int4.few(), cpu_int8.few(), cpu.has_bf16_units()) == (50, 0, False)
    with measured.forced({"int4 torch": 7}):
        assert (cpu_int4.few(), cpu_int8.few(), cpu.has_bf16_units()) == (7, cpu_int8.FEW, True)
    assert cpu_int4.few() == 50
    if not windows.IS_WINDOWS:
        assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_what_was_kept_is_read_again() -> None:
    assert measured.kept() is None
    measured.keep(of_this_machine())
    assert measured.kept() == of_this_machine()


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"setting": None},
        {"setting": dataclasses.asdict(NOWHERE)},
        {"times": []},
        {"times": {}},
        {"times": [None]},
        {"times": [["a", 1, 1, 1, 1, 1.0]]},
        {"times": [{"name": "a", "threads": 1, "inputs": 1, "outputs": 1, "rows": 1}]},
        {"times": [{"name": "a", "threads": 1, "inputs": 1, "outputs": 1, "rows": 1, "seconds": 1.0, "more": 1}]},
        {"seconds": 0.0},
        {"seconds": -1.0},
        {"seconds": 1e300},
        {"seconds": "1"},
        {"rows": 0},
        {"rows": 10**30},
        {"inputs": 2**25},
        {"threads": True},
        {"name": ""},
        {"name": "a\n"},
        {"name": 3},
        {"name": "a" * 300},
    ],
    ids=str,
)
def test_a_hostile_file_counts_as_none(change: dict[str, Any]) -> None:
    place = measured.keep(of_this_machine())
    record = json.loads(place.read_text())
    if change.keys() <= record.keys():
        record |= change
    else:
        record["times"][0] |= change
    place.write_text(json.dumps(record))
    assert measured.kept() is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"format": NaN}', b"[" * 100_000, b" " * 2**19])
def test_a_damaged_file_counts_as_none(content: bytes) -> None:
    measured.keep(of_this_machine()).write_bytes(content)
    assert measured.kept() is None


def test_too_many_times_count_as_none() -> None:
    times = tuple(timed("a", dict.fromkeys(range(1, measured.MOST_TIMES + 2), 1.0)))
    place = measured.keep(Measurement(measured.here(), times[:10]))
    record = json.loads(place.read_text()) | {"times": [{"name": "a"}] * (measured.MOST_TIMES + 1)}
    place.write_text(json.dumps(record))
    assert measured.kept() is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_or_a_link_counts_as_none() -> None:
    place = measured.keep(of_this_machine())
    other = place.rename(place.with_name("other.json"))
    place.symlink_to(other)
    assert measured.kept() is None
    place.unlink()
    os.mkfifo(place)
    assert measured.kept() is None


def test_without_a_place_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)

    def no_home() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(measured.Path, "home", no_home)
    assert measured.kept() is None
    with pytest.raises(SafelightError, match="allow writing to the cache folder"):
        measured.keep(of_this_machine())

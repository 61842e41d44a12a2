"""Products are measured by a clock that is handed in; every candidate's call is the engine's own code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

import pytest
import torch

from engine import SafelightError
from engine.benchmarks import products
from engine.benchmarks.products import CANDIDATES, ProductCandidate, measure_products, stretch

SMALL = {  # inputs and outputs that each kind of call takes
    "attention": (16, 128),
    "vocabulary": (128, 256),
    "sampler": (1, 64),
    "drawing": (1, 64),
    "rest": (128, 1),
    "experts": (128, 192),
}


def ticking(seconds: float) -> Callable[[], float]:
    """A clock on which each look is so much later than the one before."""
    ticks = count()
    return lambda: seconds * next(ticks)


def test_a_time_is_that_of_one_matrix_by_the_clock() -> None:
    asked = list[tuple[int, int, int]]()

    def make(inputs: int, outputs: int) -> Callable[[int], Callable[[], object]]:
        return lambda rows: lambda: asked.append((inputs, outputs, rows))

    own = ProductCandidate("own", "ours", make, ((2, 3), (4, 5)), (1, 8), 4)
    told = list[tuple[float, str]]()
    found = measure_products(lambda *what: told.append(what), clock=ticking(0.5), candidates=[own])
    assert found is not None
    assert found.is_quiet
    assert found.measurement.setting.threads == torch.get_num_threads()
    assert {time.seconds for time in found.measurement.times} == {0.125}
    assert {(time.inputs, time.outputs, time.rows) for time in found.measurement.times} == set(asked)
    assert told == [(0.0, "ours")]


def test_the_least_of_several_calls_counts() -> None:
    readings = iter([0.0, 1.0, 1.0, 2.0, 0.0, 5.0, 0.0, 3.0, 0.0, 4.0])  # the first four look at the cores
    one = ProductCandidate("own", "ours", lambda *_: lambda _: lambda: None, ((1, 1),), (1,), on_one=True)
    found = measure_products(clock=lambda: next(readings), candidates=[one])
    assert found is not None
    assert [time.seconds for time in found.measurement.times] == [3.0]


def test_beside_busy_programs_a_measurement_is_not_to_be_kept() -> None:
    readings = iter([0.0, 1.0, 0.0, 2.0, *[0.0, 1.0] * 3])  # all cores together take twice as long as one
    one = ProductCandidate("own", "ours", lambda *_: lambda _: lambda: None, ((1, 1),), (1,), on_one=True)
    found = measure_products(clock=lambda: next(readings), candidates=[one])
    assert found is not None
    assert not found.is_quiet


def test_work_in_all_threads_is_compared_with_work_in_one() -> None:
    assert stretch(2, ticking(1.0)) == 1.0


def test_a_stopped_measurement_gives_nothing() -> None:
    stop = threading.Event()
    threads = torch.get_num_threads()
    assert measure_products(lambda *_: stop.set(), stop, candidates=CANDIDATES[:1]) is None
    assert torch.get_num_threads() == threads


def test_a_measurement_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "LONGEST", -1.0)
    threads = torch.get_num_threads()
    with pytest.raises(SafelightError, match="other programs are busy"):
        measure_products(candidates=CANDIDATES[:1])
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda candidate: candidate.name)
def test_every_candidate_can_be_called(candidate: ProductCandidate) -> None:
    if not candidate.serves():
        pytest.skip("this processor has no such kernel")
    with torch.inference_mode():
        of_rows = candidate.make(*SMALL.get(candidate.name.split()[0], (128, 128)))
        for rows in candidate.rows[:2]:
            assert of_rows(rows)() is not None


def test_candidates_have_names_of_their_own() -> None:
    names = [candidate.name for candidate in CANDIDATES]
    assert len(set(names)) == len(names)

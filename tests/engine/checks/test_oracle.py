"""The judge of kernels: what it lets pass, what it finds and names, and when it says that nothing is proven."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.checks.kernel_checks import linear_check, sort_check, sorted_pairs
from engine.checks.oracle import OracleCheck, OracleResult, distance, judge, normal, other_scales, packed
from engine.kernels import reference
from engine.quant import INT8, Packed

CPU = torch.device("cpu")
X = normal(20, 64, device=CPU, dtype=torch.float32, seed=1)
WEIGHT = packed(300, 64, scheme=INT8, device=CPU, seed=2)


def judged(run: Callable[[Tensor, Packed], Tensor], weight: Packed = WEIGHT) -> OracleResult:
    return judge(linear_check(run, X, weight), repeats=3)


def test_a_right_kernel_passes_and_another_rows_scales_are_named() -> None:
    verdict = judged(reference.linear)
    assert verdict.ok
    assert "same bits 3 times; the neighbouring rows' scales would be off by 0." in verdict.said
    verdict = judged(lambda x, weight: reference.linear(x, other_scales(weight)))
    assert not verdict.ok
    assert verdict.said.endswith("it is much like what the neighbouring rows' scales would give")


@pytest.mark.parametrize("place", [(7, slice(None)), (slice(None), 131)])
def test_one_wrong_row_or_column_is_found(place: tuple[int | slice, int | slice]) -> None:
    """A row is a few per cent of the whole."""

    def run(x: Tensor, weight: Packed) -> Tensor:
        out = reference.linear(x, weight)
        out[place] *= 1.01
        return out

    assert not judged(run).ok


def test_numbers_that_are_none_are_found() -> None:
    def run(x: Tensor, weight: Packed) -> Tensor:
        out = reference.linear(x, weight)
        out[3, 5] = torch.nan
        return out

    verdict = judged(run)
    assert not verdict.ok
    assert verdict.error == float("inf")


def test_a_race_is_found() -> None:
    runs: list[int] = []

    def run(x: Tensor, weight: Packed) -> Tensor:
        runs.append(1)
        return reference.linear(x, weight) * (1 + 1e-6 * (len(runs) == 2))

    verdict = judged(run)
    assert (verdict.ok, verdict.said) == (False, "other bits in 1 of 2 repeats")


def test_scales_that_are_alike_prove_nothing() -> None:
    alike = dataclasses.replace(WEIGHT, scales=torch.ones_like(WEIGHT.scales))
    verdict = judged(reference.linear, alike)
    assert not verdict.ok
    assert verdict.said.endswith("the neighbouring rows' scales would be off by 0.00% only: nothing is proven")


def test_whole_numbers_are_counted_where_they_differ() -> None:
    assert distance(torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 0, 4])) == 0.25
    assert distance(torch.zeros(3), torch.zeros(4)) == float("inf")


def test_pairs_in_another_order_are_found() -> None:
    chosen = torch.tensor([[2, 0], [1, 0], [0, 2]])

    def group(chosen: Tensor, experts: int, block: int) -> tuple[Tensor, ...]:
        pairs, offsets, tiles = sorted_pairs(chosen, experts, block)
        return pairs[[1, 0, *range(2, 6)]], offsets, tiles

    assert judge(sort_check(sorted_pairs, chosen, 4, 16), 2).ok
    assert not judge(sort_check(group, chosen, 4, 16), 2).ok


def test_the_output_furthest_beyond_its_tolerance_counts() -> None:
    one = torch.ones(2, 2)
    check = OracleCheck(lambda: (one * 1.5, one * 1.01), lambda: (one, one), {}, (1.0, 1e-3))
    verdict = judge(check, 1)
    assert (verdict.ok, round(verdict.error, 3)) == (False, 0.01)

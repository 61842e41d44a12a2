"""The recommended model for a computer, by the memory that the engine's own plans count."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.models import tasks
from app.models.jobs import Control
from app.state.models.recommendation import CARD, LEAST_CARD, LEFT_ON_CARD, Choice, recommend, sold_size
from engine import PUBLISHED
from engine.catalog import (
    AUTOREGRESSIVE,
    DLLM_0_6B,
    FAST_DLLM_1_5B,
    FAST_DLLM_7B,
    GEMMA_4_BIT,
    GEMMA_ORIGINAL,
    LLADA2_MINI,
    SMALL,
    WEDLM_8B,
)
from engine.memory.machine import Machine
from tests.app.models.machines import A100, CPU_TORCH, NO_DRIVER, RTX_4060, RTX_4090, with_card, without

PLENTY = 10**12  # bytes that are free
Needs = Callable[[Machine], dict[Choice, int]]


@pytest.fixture(scope="module")
def needs() -> Needs:
    """The bytes that the page's job counts."""

    def count(machine: Machine) -> dict[Choice, int]:
        found, plans = tasks.look(lambda: machine)(Control("", "look", lambda _: None))  # type: ignore[misc]
        assert found == machine
        return {choice: plan.total_bytes for choice, plan in plans.items()}

    return count


@pytest.mark.parametrize(
    ("machine", "key", "note"),
    [
        (RTX_4090, GEMMA_4_BIT, ""),
        (A100, GEMMA_ORIGINAL, ""),
        (with_card("a card", 6 * 2**30), FAST_DLLM_1_5B, "small card"),
        (RTX_4060, FAST_DLLM_7B, "small card"),
        (with_card("a card", 10 * 2**30), WEDLM_8B, "small card"),
        (CPU_TORCH, GEMMA_4_BIT, "no CUDA"),
        (without(16, "NVIDIA", "NVIDIA GeForce RTX 4090"), LLADA2_MINI, "no CUDA"),
        (NO_DRIVER, LLADA2_MINI, "no driver"),
        (without(32, "AMD", total_bytes=24 * 2**30), GEMMA_4_BIT, "AMD"),
        (without(16, "Apple"), LLADA2_MINI, "Apple"),
        (without(4), SMALL, "no card"),
        (without(8), FAST_DLLM_1_5B, "no card"),
        (without(64), GEMMA_4_BIT, "no card"),
    ],
)
def test_the_best_that_fits(needs: Needs, machine: Machine, key: str, note: str) -> None:
    found = recommend(machine, needs(machine), PLENTY)
    assert (found.key, found.note, found.on_card) == (key, note, machine.is_usable)


@pytest.mark.parametrize(
    ("free", "key"),
    [
        (25_000_000_000, GEMMA_4_BIT),
        (24_000_000_000, LLADA2_MINI),  # the 26B would fit, with less than a quarter of all memory to spare
        (17_500_000_000, LLADA2_MINI),
        (14_000_000_000, WEDLM_8B),
        (8_500_000_000, FAST_DLLM_1_5B),
        (8_300_000_000, DLLM_0_6B),
        (8_000_000_000, SMALL),
    ],
)
def test_what_is_recommended_runs_with_what_is_free_now(needs: Needs, free: int, key: str) -> None:
    assert recommend(without(24), needs(without(24)), free).key == key


def test_what_does_not_fit_on_the_disk_is_not_recommended(needs: Needs) -> None:
    counted = {choice: need for choice, need in needs(without(64)).items() if choice[0] != GEMMA_4_BIT}
    assert recommend(without(64), counted, PLENTY).key == LLADA2_MINI


def test_the_start_page_promises_what_is_recommended(needs: Needs) -> None:
    """It knows no plans: a card from its bound upward holds the 26B."""
    smallest = with_card("a card", LEAST_CARD)
    assert needs(smallest)[GEMMA_4_BIT, "int4"] <= LEAST_CARD - LEFT_ON_CARD
    assert recommend(smallest, needs(smallest), PLENTY).key == GEMMA_4_BIT


def test_every_choice_can_be_downloaded() -> None:
    assert {repo for repo, _ in CARD} <= {model.repo for model in PUBLISHED}


def test_diffusion_models_come_before_the_others() -> None:
    kinds = {model.repo: model.model_type in AUTOREGRESSIVE for model in PUBLISHED}
    order = [kinds[repo] for repo, _ in CARD]
    assert order == sorted(order)


def test_cards_are_named_by_the_size_that_they_are_sold_with() -> None:
    reported = (7.75, 11.9, 15.6, 23.64, 31.36, 79.25, 3.0)  # gibibytes
    assert [sold_size(round(size * 2**30)) for size in reported] == [8, 12, 16, 24, 32, 80, 3]

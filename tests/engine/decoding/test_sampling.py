"""The sampler's arithmetic against plain loops, on hundreds of random cases."""

from __future__ import annotations

import math
import random

import pytest
import torch

from engine.decoding import sampling
from tests.looping import looped


def random_logits(rng: random.Random, length: int, vocabulary: int) -> list[list[float]]:
    """Rows with ties, forbidden tokens, certain rows and flat rows among them."""
    rows = []
    for _ in range(length):
        kind = rng.choice(["normal", "tied", "forbidden", "certain", "flat"])
        row = [rng.gauss(0, 3) for _ in range(vocabulary)]
        if kind == "tied":
            row = [float(rng.randint(-1, 1)) for _ in row]
        elif kind == "forbidden":
            row = [value if rng.random() < 0.3 else -math.inf for value in row]
            row[rng.randrange(vocabulary)] = 0.5
        elif kind == "certain":
            row = [-math.inf] * vocabulary
            row[rng.randrange(vocabulary)] = rng.gauss(0, 5)
        elif kind == "flat":
            row = [1.5] * vocabulary
        rows.append(row)
    return rows


def plain_softmax(row: list[float]) -> list[float]:
    top = max(row)
    weights = [math.exp(value - top) for value in row]
    return [weight / math.fsum(weights) for weight in weights]


def plain_entropy(row: list[float]) -> float:
    return -math.fsum(p * math.log(p) for p in plain_softmax(row) if p > 0)


def plain_accept(entropies: list[float], bound: float) -> list[bool]:
    """The most certain positions first, while those taken so far stay within the bound."""
    accepted, spent = [False] * len(entropies), 0.0
    for position in sorted(range(len(entropies)), key=lambda index: entropies[index]):
        if spent > bound:
            break
        accepted[position] = True
        spent += entropies[position]
    return accepted


@looped("seed", range(60))
def test_entropy_against_a_loop(seed: int) -> None:
    rng = random.Random(seed)
    rows = random_logits(rng, rng.randint(1, 12), rng.randint(2, 40))
    found = sampling.token_entropy(torch.tensor(rows))
    assert found.tolist() == pytest.approx([plain_entropy(row) for row in rows], abs=2e-6)
    assert torch.isfinite(found).all()


@looped("seed", range(200))
def test_acceptance_against_a_loop(seed: int) -> None:
    """Entropies are eighths, so that sums are exact; of equal ones at the edge of the budget the first are taken."""
    rng = random.Random(seed)
    top = rng.choice([2, 8, 40])
    entropies = [rng.randint(0, top) / 8 for _ in range(rng.choice([rng.randint(1, 40), 256]))]
    bound = rng.choice([0.0, 0.125, 0.1, 1.0, 3.0, 1000.0])
    assert sampling.accept_mask(torch.tensor(entropies), bound).tolist() == plain_accept(entropies, bound)


@looped("seed", range(40))
def test_candidates_are_possible_tokens(seed: int) -> None:
    rng = random.Random(seed)
    rows = random_logits(rng, 30, 12)
    drawn = sampling.sample_candidates(torch.tensor(rows), torch.Generator().manual_seed(seed))
    assert drawn.shape == (30,)
    assert all(rows[position][token] > -math.inf for position, token in enumerate(drawn.tolist()))


def test_candidates_follow_the_distribution() -> None:
    row = [0.0, 1.0, 2.0, -math.inf]
    logits = torch.tensor(row).expand(40_000, 4)
    drawn = sampling.sample_candidates(logits, torch.Generator().manual_seed(0))
    shares = torch.bincount(drawn, minlength=4) / 40_000
    assert shares.tolist() == pytest.approx(plain_softmax(row), abs=0.01)


@pytest.mark.parametrize("choices", [9, torch.tensor([3, 5, 11])], ids=["vocabulary", "allowed"])
def test_noise_is_uniform_over_the_choices(choices: torch.Tensor | int) -> None:
    noise = sampling.uniform_tokens((200, 100), choices, torch.Generator().manual_seed(1))
    wanted = list(range(9)) if isinstance(choices, int) else [3, 5, 11]
    values, counts = noise.unique(return_counts=True)
    assert values.tolist() == wanted
    assert (counts / noise.numel()).tolist() == pytest.approx([1 / len(wanted)] * len(wanted), abs=0.02)

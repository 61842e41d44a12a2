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
    accepted, total = [False] * len(entropies), 0.0
    for position in sorted(range(len(entropies)), key=lambda index: entropies[index]):
        if total > bound:
            break
        accepted[position] = True
        total += entropies[position]
    return accepted


@looped("seed", range(40))
def test_entropy_against_a_loop(seed: int) -> None:
    rng = random.Random(seed)
    rows = random_logits(rng, rng.randint(1, 12), rng.randint(2, 40))
    found = sampling.token_entropy(torch.tensor(rows))
    assert found.tolist() == pytest.approx([plain_entropy(row) for row in rows], abs=2e-6)
    assert torch.isfinite(found).all()


@looped("seed", range(100))
def test_acceptance_against_a_loop(seed: int) -> None:
    """Entropies are eighths, so that sums are exact; of equal ones at the edge of the budget the first are taken."""
    rng = random.Random(seed)
    top = rng.choice([2, 8, 40])
    entropies = [rng.randint(0, top) / 8 for _ in range(rng.choice([rng.randint(1, 40), 256]))]
    bound = rng.choice([0.0, 0.125, 0.1, 1.0, 3.0, 1000.0])
    assert sampling.accept_mask(torch.tensor(entropies), bound).tolist() == plain_accept(entropies, bound)
